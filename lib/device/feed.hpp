#pragma once

#include "data/batch.hpp"
#include "data/transform.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace trainctl::device {

/// A batch on the device. The tensors are the feed's own and hold until its next `put`.
struct DeviceBatch {
  at::Tensor inputs_nchw;         // float32 [N, C, H, W]
  at::Tensor targets;             // int64 [N]
  std::int64_t valid = 0;         // rows of this rank that count
  std::int64_t global_valid = 0;  // over all ranks
};

/// What the feed is built for.
struct FeedOptions {
  data::Layout layout;  // an image {u8, {H, W, C}} and a label {i64, {}}
  std::optional<data::Normalization> normalization;
  std::int64_t max_rows = 0;
  std::int64_t classes = 0;  // labels are below it; 0: they are not checked
  bool pin_memory = true;    // a GPU is fed through page-locked memory
};

/// Moves ring slots to the device: one copy as uint8, widened and normalised there into tensors
/// that are reused.
class Feed {
 public:
  virtual ~Feed() = default;
  /// N is `batch.valid`, or 1 where no row of this rank counts: a padded rank still takes part in
  /// the step. Throws Error(data) for a label that is no class.
  virtual const DeviceBatch& put(const data::Batch& batch) = 0;
};

/// Where the image and the label stand in a layout.
struct ImageFields {
  std::size_t image = 0;
  std::size_t label = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

/// Throws Error(config) where the layout has no uint8 image of rank 3 or no int64 label.
ImageFields image_fields(const data::Layout& layout);

/// Throws Error(data) for the first of the labels that is not below `classes`, or is negative; 0
/// takes any.
void check_labels(std::span<const std::byte> labels_i64, std::int64_t rows, std::int64_t classes);

std::unique_ptr<Feed> make_feed(at::Device device, const FeedOptions& options);

}  // namespace trainctl::device
