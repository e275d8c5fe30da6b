#pragma once

#include "data/cache/device_images.hpp"
#include "data/core/batch.hpp"
#include "data/core/transform.hpp"
#include "device/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::device {

/// The options of make_feed().
struct FeedOptions {
  data::Layout layout;                               // of samples, with their roles
  std::optional<data::Normalization> normalization;  // of images
  std::int64_t max_rows = 0;
  std::int64_t classes = 0;  // labels must be below it; 0: labels are not checked
  std::optional<std::int64_t> ignored_label = std::nullopt;  // accepted although it is not a class
  /// The loader's memory of all batches, from which a GPU copies in the background; empty: copies
  /// make the host wait.
  std::span<const std::byte> ring = {};
  int in_flight = 0;  // the loader keeps this many batches after the next one was requested
  /// The images that the device stores; batches contain pixel plans then. Null: batches contain
  /// pixels.
  std::shared_ptr<const data::HeldImages> held = nullptr;
};

/// Copies batches from the loader's ring to the device, into tensors that are reused, with one copy
/// per field. Images are copied as bytes, or as plans for images that the device stores, and are
/// converted to float and normalized on the device.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Copies the batch. N is `batch.valid`, or 1 if this rank has only padding, because it must
  /// still take part in the step. Throws Error(data) for an invalid label.
  virtual const DeviceBatch& put(const data::Batch& batch) = 0;
  /// Waits until all batches are copied. Call it before the loader restarts its ring.
  virtual void drain() {}
};

/// A field of the samples and the tensor of the batch that it is copied to.
struct FeedPart {
  enum class Kind { copied, image, classes };
  Kind kind = Kind::copied;
  std::size_t field = 0;
  at::Tensor DeviceBatch::*tensor = nullptr;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;  // for max_rows rows
};

/// Returns the parts that training uses. Throws Error(config) if the samples cannot be used for
/// training.
std::vector<FeedPart> feed_parts(const FeedOptions& options);

/// Throws Error(data) for the first label that is negative or not below `classes`, unless it is
/// `ignored`. With 0 classes every label is valid.
void check_labels(std::span<const std::byte> labels_i64, std::int64_t rows, std::int64_t classes,
                  std::optional<std::int64_t> ignored);

/// Returns the feed for a CPU or GPU. Throws Error(config) like feed_parts().
std::unique_ptr<Feed> make_feed(at::Device device, const FeedOptions& options);
using FeedFactory = std::function<std::unique_ptr<Feed>(at::Device, const FeedOptions&)>;

}  // namespace trainctl::device
