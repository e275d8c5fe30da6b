#include "spec/transform/random_perspective.hpp"

#include "data/image/warp.hpp"
#include "data/registry.hpp"

namespace trainctl::data {
namespace {

/// Draws: the coin; then how far each corner moves in, x before y, clockwise from the upper left.
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
    const std::int64_t right = input.shape.width - 1;
    const std::int64_t bottom = input.shape.height - 1;
    std::array<Point, 4> corners;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t x = inwards(input.shape.width, rng);
      const std::int64_t y = inwards(input.shape.height, rng);
      corners[i] = {i == 1 || i == 2 ? right - x : x, i >= 2 ? bottom - y : y};
    }
    warp_perspective(input, perspective_of(input.shape, corners), sampling_, output);
  }

 private:
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
