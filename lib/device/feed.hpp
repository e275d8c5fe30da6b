#pragma once

#include "data/cache/device_images.hpp"
#include "data/core/batch.hpp"
#include "data/core/transform.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::device {

/// A batch on the device. The tensors are the feed's own and hold until its next `put`.
struct DeviceBatch {
  at::Tensor inputs;   // images: float32 [N, C, H, W]; rows: float32 [N, ...]; tokens: int64 [N, T]
  at::Tensor targets;  // classes: int64 [N]; numbers: float32 [N, K]; tokens: int64 [N, T]
  at::Tensor targets_b;           // of a mixed batch: int64 [N], the classes of the rows' partners
  at::Tensor lambda;              // with it: float32 [N], the share of the row's own class
  std::int64_t valid = 0;         // rows of this rank that count
  std::int64_t global_valid = 0;  // over all ranks
};

/// Returns a batch whose tensors, where it has them, are what `change` makes of them.
template <class Change>
DeviceBatch with_tensors(DeviceBatch batch, const Change& change) {
  for (at::Tensor* tensor : {&batch.inputs, &batch.targets, &batch.targets_b, &batch.lambda}) {
    if (tensor->defined()) *tensor = change(*tensor);
  }
  return batch;
}

/// What the feed is built for.
struct FeedOptions {
  data::Layout layout;                               // of samples that have their roles
  std::optional<data::Normalization> normalization;  // of images
  std::int64_t max_rows = 0;
  std::int64_t classes = 0;  // labels are below it; 0: they are not checked
  std::optional<std::int64_t> ignored_label = std::nullopt;  // is no class, and lets pass
  bool pin_memory = true;  // a GPU is fed through page-locked memory
  /// The images where the device keeps them: the batches have plans.
  std::shared_ptr<const data::HeldImages> held = nullptr;
};

/// Moves ring slots to the device, into tensors that are reused: one copy of each field as it lies
/// in the slot. Images are bytes till then, or plans of the images that the device keeps, and are
/// widened and normalized there.
class Feed {
 public:
  virtual ~Feed() = default;
  /// N is `batch.valid`, or 1 where no row of this rank counts: a padded rank still takes part in
  /// the step. Throws Error(data) for a label that is no class.
  virtual const DeviceBatch& put(const data::Batch& batch) = 0;
};

/// A field of the samples and the tensor of the batch that it becomes.
struct FeedPart {
  enum class Kind { copied, image, classes };
  Kind kind = Kind::copied;
  std::size_t field = 0;
  at::Tensor DeviceBatch::*tensor = nullptr;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;  // of all rows
};

/// What training takes of the samples. Throws Error(config) where they cannot be trained on.
std::vector<FeedPart> feed_parts(const FeedOptions& options);

/// Throws Error(data) for the first of the labels that is not below `classes`, or is negative, and
/// is not `ignored`; 0 classes take any.
void check_labels(std::span<const std::byte> labels_i64, std::int64_t rows, std::int64_t classes,
                  std::optional<std::int64_t> ignored);

std::unique_ptr<Feed> make_feed(at::Device device, const FeedOptions& options);

}  // namespace trainctl::device
