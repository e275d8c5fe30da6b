#include "spec/transform/random_resized_crop.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/resize.hpp"
#include "data/transform/parameters.hpp"

#include <array>
#include <cmath>

namespace trainctl::data {
namespace {

constexpr int kAttempts = 10;

/// Halves go to the even number, as Python's round().
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// Draws, in each of ten attempts: area, then ratio; where the part fits into the image: top, then
/// left.
class RandomResizedCrop final : public CropTransform {
 public:
  explicit RandomResizedCrop(const spec::transform::RandomResizedCrop& options)
      : size_(size_of_options(options.size.values)),
        scale_(options.scale),
        ratio_(options.ratio),
        interpolation_(options.interpolation) {
    ENSURE(config, scale_[0] <= scale_[1], "scale is [{}, {}]; write the smaller number first",
           scale_[0], scale_[1]);
    ENSURE(config, ratio_[0] <= ratio_[1], "ratio is [{}, {}]; write the smaller number first",
           ratio_[0], ratio_[1]);
    log_ratio_ = {portable_log(ratio_[0]), portable_log(ratio_[1])};
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {size_.height, size_.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return true; }
  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return resize_scratch_bytes(input);
  }

  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    const auto area = static_cast<double>(input.height * input.width);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double part = area * draw_between(rng, scale_[0], scale_[1]);
      const double ratio = portable_exp(draw_between(rng, log_ratio_[0], log_ratio_[1]));
      const std::int64_t width = rounded(std::sqrt(part * ratio));
      const std::int64_t height = rounded(std::sqrt(part / ratio));
      if (width < 1 || width > input.width || height < 1 || height > input.height) continue;
      const auto top = static_cast<std::int64_t>(
          rng.below(static_cast<std::uint64_t>(input.height - height + 1)));
      const auto left =
          static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(input.width - width + 1)));
      return {top, left, height, width};
    }
    return middle(input);
  }

  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    const ResizePlan plan{ResizeAxis::whole(window.shape.height, size_.height, interpolation_),
                          ResizeAxis::whole(window.shape.width, size_.width, interpolation_)};
    resize(window.window(resize_box(plan)), plan,
           output.resize({size_.height, size_.width, window.shape.channels}));
  }

 private:
  /// The largest part in the middle whose ratio is allowed.
  [[nodiscard]] Box middle(const ImageShape& input) const {
    const auto height = static_cast<double>(input.height);
    const auto width = static_cast<double>(input.width);
    Box box{0, 0, input.height, input.width};
    if (width / height < ratio_[0])
      box.height = std::max<std::int64_t>(1, rounded(width / ratio_[0]));
    if (width / height > ratio_[1])
      box.width = std::max<std::int64_t>(1, rounded(height * ratio_[1]));
    box.top = (input.height - box.height) / 2;
    box.left = (input.width - box.width) / 2;
    return box;
  }

  Extents size_;
  std::array<double, 2> scale_;
  std::array<double, 2> ratio_;
  spec::transform::Interpolation interpolation_;
  std::array<double, 2> log_ratio_{};
};

}  // namespace

void register_transform_random_resized_crop(Catalogue& catalogue) {
  catalogue.transforms["random_resized_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomResizedCrop>(
        stage.as<spec::transform::RandomResizedCrop>());
  };
}

}  // namespace trainctl::data
