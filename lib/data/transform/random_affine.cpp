#include "spec/transform/random_affine.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/warp.hpp"
#include "data/transform/parameters.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

double tangent(double degrees) {
  const SinCos angle = sin_cos_degrees(degrees);
  return angle.sin / angle.cos;
}

Range shear_down(const std::vector<double>& values) {
  ENSURE(config, values.size() == 1 || values.size() == 2 || values.size() == 4,
         "shear has {} values; give 1, 2 or 4", values.size());
  return values.size() == 4 ? angles("shear", values, 2) : Range{};
}

/// Draws: angle, move along x and along y, scale, shear along x and along y; each whether or not it
/// is asked for.
class RandomAffine final : public Transform {
 public:
  explicit RandomAffine(const spec::transform::RandomAffine& options)
      : options_(options),
        degrees_(angles("degrees", options.degrees.values)),
        shear_x_(angles("shear", options.shear.values)),
        shear_y_(shear_down(options.shear.values)),
        sampling_{options.interpolation, Fill(options.fill.values)} {
    ENSURE(config, options.scale[0] <= options.scale[1],
           "scale is [{}, {}]; write the smaller number first", options.scale[0], options.scale[1]);
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    sampling_.fill->check(input.channels);
    return input;
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    const auto width = static_cast<double>(input.shape.width);
    const auto height = static_cast<double>(input.shape.height);
    const double right = options_.translate[0] * width;
    const double down = options_.translate[1] * height;
    AffineMotion motion;
    motion.degrees = draw_between(rng, degrees_.low, degrees_.high);
    motion.translate_x = std::nearbyint(draw_between(rng, -right, right));
    motion.translate_y = std::nearbyint(draw_between(rng, -down, down));
    motion.scale = draw_between(rng, options_.scale[0], options_.scale[1]);
    motion.shear_x = tangent(draw_between(rng, shear_x_.low, shear_x_.high));
    motion.shear_y = tangent(draw_between(rng, shear_y_.low, shear_y_.high));
    if (options_.center) {
      motion.center_x = (*options_.center)[0] - width * 0.5;
      motion.center_y = (*options_.center)[1] - height * 0.5;
    }
    warp_affine(input, inverse_of(motion), input.shape, sampling_, output);
  }

 private:
  spec::transform::RandomAffine options_;
  Range degrees_;
  Range shear_x_;
  Range shear_y_;
  Sampling sampling_;
};

}  // namespace

void register_transform_random_affine(Catalogue& catalogue) {
  catalogue.transforms["random_affine"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomAffine>(stage.as<spec::transform::RandomAffine>());
  };
}

}  // namespace trainctl::data
