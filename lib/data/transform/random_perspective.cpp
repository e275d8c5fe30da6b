#include "spec/transform/random_perspective.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/image/warp.hpp"

namespace trainctl::data {
namespace {

constexpr int kAttempts = 100;

/// Draws: the coin; then how far each corner moves in, x before y, clockwise from the upper left;
/// these again, up to a hundred times, where three corners come to lie on one line.
class RandomPerspective final : public Transform {
 public:
  explicit RandomPerspective(const spec::transform::RandomPerspective& options)
      : probability_(options.p),
        distortion_(options.distortion_scale),
        sampling_{options.interpolation, Fill(options.fill.values)} {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    sampling_.fill->check(input.channels);
    return input;
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto perspective = perspective_of(input.shape, draw_corners(input.shape, rng));
      if (perspective) return warp_perspective(input, *perspective, sampling_, output);
    }
    throw Error(ErrorKind::data,
                fmt::format("an image of {}x{} pixels cannot be tilted: it has no area between its "
                            "corners; leave it out, or resize first",
                            input.shape.width, input.shape.height));
  }

 private:
  [[nodiscard]] std::array<Point, 4> draw_corners(const ImageShape& image, CounterRng& rng) const {
    std::array<Point, 4> corners;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t x = inwards(image.width, rng);
      const std::int64_t y = inwards(image.height, rng);
      corners[i] = {i == 1 || i == 2 ? image.width - 1 - x : x, i >= 2 ? image.height - 1 - y : y};
    }
    return corners;
  }
  [[nodiscard]] std::int64_t inwards(std::int64_t extent, CounterRng& rng) const {
    const auto most = static_cast<std::uint64_t>(distortion_ * static_cast<double>(extent / 2));
    return static_cast<std::int64_t>(rng.below(most + 1));
  }

  double probability_;
  double distortion_;
  Sampling sampling_;
};

}  // namespace

void register_transform_random_perspective(Catalogue& catalogue) {
  catalogue.transforms["random_perspective"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomPerspective>(
        stage.as<spec::transform::RandomPerspective>());
  };
}

}  // namespace trainctl::data
