#include "data/core/image_probe.hpp"

#include "base/error.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/image/codec/decoder.hpp"

namespace trainctl::data {
namespace {

constexpr std::int64_t kMostLookedAt = 256;
constexpr std::int64_t kMostProbed = 64;
constexpr double kMargin = 1.1;  // added when only some images were measured

/// Returns the i-th of `wanted` indices that are spread over `size` samples, one per stretch. The
/// offset within the stretch varies, because sizes may be periodic in the order of the data set.
std::int64_t spread_index(std::int64_t i, std::int64_t wanted, std::int64_t size) {
  return i * size / wanted + i * 7 % (size / wanted);
}

}  // namespace

ImageSizes probe_image_sizes(const Pipeline& pipeline) {
  ImageSizes sizes;
  const Dataset& dataset = *pipeline.dataset;
  if (dataset.images() == nullptr) return sizes;
  const Prefix prefix(pipeline);
  std::vector<std::byte> scratch;
  const std::int64_t wanted = std::min(dataset.size(), kMostLookedAt);
  for (std::int64_t i = 0; i < wanted; ++i) {
    try {
      const StoredImage image =
          dataset.images()->read(spread_index(i, wanted, dataset.size()), scratch);
      const ImageShape input = prefix.shape_before(image);
      sizes.pixels += prefix.shape_after(input).bytes();
      sizes.stored += image.bytes.size();
      sizes.files = sizes.files || !image.raw.fixed();
      sizes.largest_stored = std::max<std::uint64_t>(sizes.largest_stored, image.bytes.size());
      if (input.bytes() > sizes.largest.bytes()) sizes.largest = input;
      ++sizes.images;
    } catch (const Error& error) {
      // The loader reports images that are damaged or do not suit a transform.
      if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::config) throw;
    }
  }
  if (sizes.images == 0 || sizes.images == dataset.size()) return sizes;
  const double factor =
      static_cast<double>(dataset.size()) / static_cast<double>(sizes.images) * kMargin;
  sizes.stored = static_cast<std::uint64_t>(static_cast<double>(sizes.stored) * factor);
  sizes.pixels = static_cast<std::uint64_t>(static_cast<double>(sizes.pixels) * factor);
  return sizes;
}

namespace {

std::string size_text(const ImageShape& shape) {
  return fmt::format("{}x{}", shape.height, shape.width);
}

class SameSize final : public Transform {
 public:
  explicit SameSize(const ImageShape& shape) : shape_(shape) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {shape_.height, shape_.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& /*rng*/) const override {
    ENSURE(data, input.shape.height == shape_.height && input.shape.width == shape_.width,
           "the image has {} pixels, but the images checked at the start have {}\nhint: {}",
           size_text(input.shape), size_text(shape_), kSizeHint);
    output.copy(input);
  }

 private:
  ImageShape shape_;
};

}  // namespace

CommonSize common_size(const Dataset& dataset) {
  CommonSize found;
  if (dataset.images() == nullptr) return found;
  ImageDecoder decoder;
  std::vector<std::byte> scratch;
  std::string first;
  const std::int64_t probes = std::min(dataset.size(), kMostProbed);
  for (std::int64_t i = 0; i < probes; ++i) {
    const std::int64_t index = spread_index(i, probes, dataset.size());
    ImageShape shape;
    try {
      const StoredImage stored = dataset.images()->read(index, scratch);
      shape = stored.raw.fixed() ? stored.raw : decoder.open(stored.bytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;  // the loader reports damaged images
      continue;
    }
    if (first.empty()) {
      found.shape = shape;
      first = dataset.images()->name(index);
    } else if (shape.height != found.shape.height || shape.width != found.shape.width) {
      return {.shape = {},
              .difference =
                  fmt::format("{} has {} pixels, but {} has {}", first, size_text(found.shape),
                              dataset.images()->name(index), size_text(shape))};
    }
  }
  return found;
}

std::shared_ptr<const Transform> same_size(const ImageShape& shape) {
  return std::make_shared<const SameSize>(shape);
}

}  // namespace trainctl::data
