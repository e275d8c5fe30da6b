#include "data/core/common_size.hpp"

#include "base/error.hpp"
#include "data/core/image_probe.hpp"
#include "data/image/codec/decoder.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

constexpr std::int64_t kMostProbed = 64;

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
           "it has {} pixels, and the images probed at the start have {}; {}",
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
      return {
          .shape = {},
          .difference = fmt::format("{} has {} pixels and {} has {}", first, size_text(found.shape),
                                    dataset.images()->name(index), size_text(shape))};
    }
  }
  return found;
}

std::shared_ptr<const Transform> same_size(const ImageShape& shape) {
  return std::make_shared<const SameSize>(shape);
}

}  // namespace trainctl::data
