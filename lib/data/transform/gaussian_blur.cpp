#include "spec/transform/gaussian_blur.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/transform/blur_rows.hpp"
#include "data/transform/draw.hpp"

#include <array>
#include <span>
#include <vector>

namespace trainctl::data {
namespace {

constexpr std::size_t kMostTaps = 511;

/// Draws: sigma.
class GaussianBlur final : public Transform {
 public:
  explicit GaussianBlur(const spec::transform::GaussianBlur& options) {
    const std::vector<int>& size = options.kernel_size.values;
    const std::vector<double>& sigma = options.sigma.values;
    ENSURE(config, size.size() == 1 || size.size() == 2,
           "kernel_size has {} values; give one, or [width, height]", size.size());
    ENSURE(config, sigma.size() == 1 || sigma.size() == 2,
           "sigma has {} values; give one, or the smallest and the largest", sigma.size());
    across_ = static_cast<std::size_t>(size.front());
    down_ = static_cast<std::size_t>(size.back());
    ENSURE(config, across_ % 2 == 1 && down_ % 2 == 1,
           "kernel_size is {}x{}, and a kernel has a middle pixel; write odd numbers", across_,
           down_);
    low_ = sigma.front();
    high_ = sigma.back();
    ENSURE(config, low_ <= high_, "sigma is [{}, {}]; write the smaller number first", low_, high_);
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    if (input.fixed()) check<ErrorKind::config>(input);
    return input;
  }

  [[nodiscard]] bool random() const override { return low_ != high_; }

  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return gaussian_blur_bytes(input, across_, down_);
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    check<ErrorKind::data>(input.shape);
    thread_local std::vector<float> scratch;
    std::array<float, kMostTaps> across;
    std::array<float, kMostTaps> down;
    const double sigma = draw_between(rng, low_, high_);
    gaussian_weights(sigma, std::span(across).first(across_));
    gaussian_weights(sigma, std::span(down).first(down_));
    gaussian_blur(input, std::span(across).first(across_), std::span(down).first(down_), scratch,
                  output);
  }

 private:
  template <ErrorKind kind>
  void check(const ImageShape& image) const {
    const auto width = static_cast<std::int64_t>(across_) / 2;
    const auto height = static_cast<std::int64_t>(down_) / 2;
    if (width < image.width && height < image.height) return;
    throw Error(
        kind,
        fmt::format(
            "a kernel of {}x{} pixels is too large for an image {} wide and {} high: half of it "
            "must fit; set kernel_size smaller, or resize first",
            across_, down_, image.width, image.height));
  }

  std::size_t across_ = 1;
  std::size_t down_ = 1;
  double low_ = 0;
  double high_ = 0;
};

}  // namespace

void register_transform_gaussian_blur(Catalogue& catalogue) {
  catalogue.transforms["gaussian_blur"] = [](const config::Stage& stage) {
    return std::make_shared<const GaussianBlur>(stage.as<spec::transform::GaussianBlur>());
  };
}

}  // namespace trainctl::data
