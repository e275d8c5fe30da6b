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

  [[nodiscard]] Field output(const Field& input) const override {
    const std::int64_t height = input.shape[0] + 2 * padding_;
    const std::int64_t width = input.shape[1] + 2 * padding_;
    ENSURE(config, size_ <= height && size_ <= width,
           "a crop of {} pixels does not fit into {}x{} images with {} pixels of padding; set size to at most {}",
           size_, input.shape[0], input.shape[1], padding_, std::min(height, width));
    Field field = input;
    field.shape = {size_, size_, input.shape[2]};
    return field;
  }

  void apply(std::span<const std::byte> input, const Field& from, std::span<std::byte> output, const Field&,
             CounterRng& rng) const override {
    const std::int64_t height = from.shape[0];
    const std::int64_t width = from.shape[1];
    const auto channels = static_cast<std::size_t>(from.shape[2]);
    const std::int64_t top = offset(height, rng);
    const std::int64_t left = offset(width, rng);
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, size_);            // output columns before the image
    const std::int64_t last = std::clamp<std::int64_t>(width - left, first, size_);  // and where it ends
    const std::size_t row_bytes = static_cast<std::size_t>(size_) * channels;
    if (padding_ > 0) std::memset(output.data(), fill_, output.size());
    for (std::int64_t row = 0; row < size_; ++row) {
      const std::int64_t source = top + row;
      if (source < 0 || source >= height || first == last) continue;
      std::memcpy(
          output.data() + static_cast<std::size_t>(row) * row_bytes + static_cast<std::size_t>(first) * channels,
          input.data() + static_cast<std::size_t>(source * width + left + first) * channels,
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
