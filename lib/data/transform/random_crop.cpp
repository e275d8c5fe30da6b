#include "spec/transform/random_crop.hpp"

#include "base/error.hpp"
#include "data/registry.hpp"

#include <algorithm>
#include <cstring>

namespace trainctl::data {
namespace {

class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(const spec::transform::RandomCrop& options)
      : size_(options.size), padding_(options.padding), fill_(options.fill) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    const std::int64_t height = input.height + 2 * padding_;
    const std::int64_t width = input.width + 2 * padding_;
    ENSURE(config, !input.fixed() || (size_ <= height && size_ <= width),
           "a crop of {} pixels does not fit into {}x{} images with {} pixels of padding; set size to at most {}",
           size_, input.height, input.width, padding_, std::min(height, width));
    return {size_, size_, input.channels};
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    const auto [height, width, channels_of_pixel] = input.shape;
    ENSURE(data, size_ <= height + 2 * padding_ && size_ <= width + 2 * padding_,
           "a crop of {} pixels does not fit into this image of {}x{} with {} pixels of padding; resize first", size_,
           height, width, padding_);
    const auto channels = static_cast<std::size_t>(channels_of_pixel);
    const std::int64_t top = offset(height, rng);
    const std::int64_t left = offset(width, rng);
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, size_);            // output columns before the image
    const std::int64_t last = std::clamp<std::int64_t>(width - left, first, size_);  // and where it ends
    output.resize({size_, size_, channels_of_pixel});
    if (padding_ > 0) std::memset(output.pixels(), fill_, output.shape().bytes());
    for (std::int64_t row = 0; row < size_; ++row) {
      const std::int64_t source = top + row;
      if (source < 0 || source >= height || first == last) continue;
      std::memcpy(output.row(row) + static_cast<std::size_t>(first) * channels,
                  input.row(source) + static_cast<std::size_t>(left + first) * channels,
                  static_cast<std::size_t>(last - first) * channels);
    }
  }

 private:
  /// Where the crop begins, in pixels of the image before padding.
  [[nodiscard]] std::int64_t offset(std::int64_t extent, CounterRng& rng) const {
    const std::int64_t places = extent + 2 * padding_ - size_ + 1;
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(places))) - padding_;
  }

  std::int64_t size_;
  std::int64_t padding_;
  int fill_;
};

}  // namespace

void register_transform_random_crop(Catalogue& catalogue) {
  catalogue.transforms["random_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomCrop>(stage.as<spec::transform::RandomCrop>());
  };
}

}  // namespace trainctl::data
