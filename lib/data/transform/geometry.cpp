
#include "data/image/geometry.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/warp.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

double tangent(double degrees) {
  const SinCos angle = sin_cos_degrees(degrees);
  return angle.sin / angle.cos;
}

Range shear_down(const std::vector<double>& values) {
  ENSURE(config, values.size() == 1 || values.size() == 2 || values.size() == 4,
         "shear must have 1, 2 or 4 values, got {}\nhint: set one number, [x_min, x_max] or "
         "[x_min, x_max, y_min, y_max]",
         values.size());
  return values.size() == 4 ? angles("shear", values, 2) : Range{};
}

/// Draws angle, translation in x and y, scale, shear in x and y, each whether or not it is used.
class RandomAffine final : public Transform {
 public:
  explicit RandomAffine(const spec::transform::RandomAffine& options)
      : options_(options),
        degrees_(angles("degrees", options.degrees.values)),
        shear_x_(angles("shear", options.shear.values)),
        shear_y_(shear_down(options.shear.values)),
        sampling_{options.interpolation, Fill(options.fill.values)} {
    ENSURE(config, options.scale[0] <= options.scale[1],
           "scale must be [smallest, largest], got [{}, {}]", options.scale[0], options.scale[1]);
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    sampling_.fill->check(input.channels);
    return input;
  }

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

/// Draws the angle.
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

  /// The diagonal is the upper bound of both sides.
  [[nodiscard]] ImageShape largest(const ImageShape& input) const override {
    if (frame_ == Frame::kept) return input;
    const double diagonal =
        std::hypot(static_cast<double>(input.height), static_cast<double>(input.width));
    const std::int64_t side = static_cast<std::int64_t>(std::ceil(diagonal)) + 2;
    return {side, side, input.channels};
  }

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

constexpr int kPerspectiveAttempts = 100;

/// Draws the coin; then the displacement of each corner, x before y, clockwise from the upper left.
/// Repeats this up to a hundred times while three corners are collinear.
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

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    for (int attempt = 0; attempt < kPerspectiveAttempts; ++attempt) {
      const auto perspective = perspective_of(input.shape, draw_corners(input.shape, rng));
      if (perspective) return warp_perspective(input, *perspective, sampling_, output);
    }
    throw Error(
        ErrorKind::data,
        fmt::format("cannot change the perspective of an image of {}x{} pixels: the image is too "
                    "thin\nhint: remove the image, or resize first",
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

enum class Flip { horizontal, vertical };

/// Draws one coin. With `alternate`, the loader passes the draws of the first epoch again and
/// again, inverted in every other epoch.
template <Flip kFlip>
class RandomFlip final : public Transform {
 public:
  template <class Options>
  explicit RandomFlip(const Options& options)
      : probability_(options.p), alternate_(options.alternate) {
    ENSURE(config, !alternate_ || probability_ == 0.5,
           "alternate: true requires p 0.5, got {}\nhint: remove p or alternate", probability_);
  }

  [[nodiscard]] bool alternates() const override { return alternate_; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    kFlip == Flip::horizontal ? horizontal_flip(input, output) : vertical_flip(input, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override { return Paint(); }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return;
    kFlip == Flip::horizontal ? image.mirror_columns() : image.mirror_rows();
  }

 private:
  double probability_;
  bool alternate_;
};

}  // namespace

void register_transform_random_affine(Catalog& catalog) {
  catalog.transforms["random_affine"] = maker<RandomAffine, spec::transform::RandomAffine>();
}

void register_transform_random_rotation(Catalog& catalog) {
  catalog.transforms["random_rotation"] = maker<RandomRotation, spec::transform::RandomRotation>();
}

void register_transform_random_perspective(Catalog& catalog) {
  catalog.transforms["random_perspective"] =
      maker<RandomPerspective, spec::transform::RandomPerspective>();
}

void register_transform_random_horizontal_flip(Catalog& catalog) {
  catalog.transforms["random_horizontal_flip"] =
      maker<RandomFlip<Flip::horizontal>, spec::transform::RandomHorizontalFlip>();
}

void register_transform_random_vertical_flip(Catalog& catalog) {
  catalog.transforms["random_vertical_flip"] =
      maker<RandomFlip<Flip::vertical>, spec::transform::RandomVerticalFlip>();
}

}  // namespace trainctl::data
