#include "spec/transform/random_rotation.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/image/warp.hpp"
#include "data/transform/parameters.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

/// Draws: the angle.
class RandomRotation final : public Transform {
 public:
  explicit RandomRotation(const spec::transform::RandomRotation& options)
      : degrees_(angles("degrees", options.degrees.values)),
        frame_(options.expand ? Frame::expanded : Frame::kept),
        center_(options.center),
        sampling_{options.interpolation, Fill(options.fill.values)} {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    sampling_.fill->check(input.channels);
    if (frame_ == Frame::kept) return input;
    return {0, 0, input.channels};
  }

  /// The diagonal is the longest that an image can become.
  [[nodiscard]] ImageShape largest(const ImageShape& input) const override {
    if (frame_ == Frame::kept) return input;
    const double diagonal =
        std::hypot(static_cast<double>(input.height), static_cast<double>(input.width));
    const std::int64_t side = static_cast<std::int64_t>(std::ceil(diagonal)) + 2;
    return {side, side, input.channels};
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    rotate(input, {draw_between(rng, degrees_.low, degrees_.high), frame_, center_}, sampling_,
           output);
  }

 private:
  Range degrees_;
  Frame frame_;
  std::optional<std::array<double, 2>> center_;
  Sampling sampling_;
};

}  // namespace

void register_transform_random_rotation(Catalogue& catalogue) {
  catalogue.transforms["random_rotation"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomRotation>(stage.as<spec::transform::RandomRotation>());
  };
}

}  // namespace trainctl::data
