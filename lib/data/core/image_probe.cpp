#include "data/core/image_probe.hpp"

#include "base/error.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/image/codec/decoder.hpp"
#include "spec/sample.hpp"

#include <bitset>

namespace trainctl::data {
namespace {

constexpr std::int64_t kMostLookedAt = 256;
constexpr std::int64_t kMostProbed = 64;
constexpr std::int64_t kMostMasks = 16;
constexpr double kMargin = 1.1;  // added when only some images were measured

/// Returns the i-th of `wanted` indices that are spread over `size` samples, one per stretch. The
/// offset within the stretch varies, because sizes may be periodic in the order of the data set.
std::int64_t spread_index(std::int64_t i, std::int64_t wanted, std::int64_t size) {
  return i * size / wanted + i * 7 % (size / wanted);
}

/// Calls probe(index, image) for up to `most` images, until it returns false. The loader reports
/// images that are damaged or do not suit a transform.
template <class Probe>
void probe_images(const Dataset& dataset, std::int64_t most, Probe&& probe) {
  if (dataset.images() == nullptr) return;
  std::vector<std::byte> scratch;
  const std::int64_t wanted = std::min(dataset.size(), most);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t index = spread_index(i, wanted, dataset.size());
    try {
      if (!probe(index, dataset.images()->read(index, scratch))) return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::config) throw;
    }
  }
}

}  // namespace

ImageSizes probe_image_sizes(const Pipeline& pipeline) {
  ImageSizes sizes;
  const Dataset& dataset = *pipeline.dataset;
  if (dataset.images() == nullptr) return sizes;
  const Prefix prefix(pipeline);
  probe_images(dataset, kMostLookedAt, [&](std::int64_t, const StoredImage& image) {
    const ImageShape input = prefix.shape_before(image);
    sizes.pixels += prefix.shape_after(input).bytes();
    sizes.stored += image.bytes.size();
    sizes.files = sizes.files || !image.raw.fixed();
    sizes.largest_stored = std::max<std::uint64_t>(sizes.largest_stored, image.bytes.size());
    if (input.bytes() > sizes.largest.bytes()) sizes.largest = input;
    ++sizes.images;
    return true;
  });
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
  ImageDecoder decoder;
  std::string first;
  probe_images(dataset, kMostProbed, [&](std::int64_t index, const StoredImage& stored) {
    const ImageShape shape = stored.raw.fixed() ? stored.raw : decoder.open(stored.bytes);
    const std::string name = dataset.images()->name(index);
    if (first.empty()) {
      found.shape = shape;
      first = name;
    } else if (shape.height != found.shape.height || shape.width != found.shape.width) {
      found = {{},
               fmt::format("{} has {} pixels, but {} has {}", first, size_text(found.shape), name,
                           size_text(shape))};
    }
    return found.difference.empty();
  });
  return found;
}

std::string mask_warning(const Dataset& dataset) {
  std::bitset<spec::kIgnoredPixel + 1> values;
  std::string name;  // of the first sample with ignored pixels
  const auto has_others = [&] { return (values << 1 >> 2).any(); };  // than 0 and 255
  probe_images(dataset, kMostMasks, [&](std::int64_t index, const StoredImage& image) {
    const auto channels = static_cast<std::size_t>(image.raw.channels);
    for (std::size_t at = channels - 1; at < image.bytes.size(); at += channels)
      values.set(std::to_integer<std::size_t>(image.bytes[at]));
    if (values[spec::kIgnoredPixel] && name.empty()) name = dataset.images()->name(index);
    return !has_others();
  });
  if (name.empty() || has_others() || dataset.classes() < 2) return "";
  return fmt::format(
      "in the masks that were read, no pixel has a class above 0, but some have the value {}, "
      "which means that they do not count, for example in the mask of {}\n"
      "hint: if {} marks a class, convert it to the number of the class in all masks",
      spec::kIgnoredPixel, name, spec::kIgnoredPixel);
}

std::shared_ptr<const Transform> same_size(const ImageShape& shape) {
  return std::make_shared<const SameSize>(shape);
}

}  // namespace trainctl::data
