#include "data/image/color.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

namespace trainctl::data {
namespace {

using Adjust = void (*)(const ImageView& input, double factor, ImageTarget& output);
constexpr std::array<Adjust, 4> kAdjust{adjust_brightness, adjust_contrast, adjust_saturation,
                                        adjust_hue};

Range range_of(const char* name, const std::vector<double>& values, double center) {
  ENSURE(config, values.size() == 1 || values.size() == 2,
         "{} must be one number or [smallest, largest], got {} values", name, values.size());
  const bool one = values.size() == 1;
  ENSURE(config, !one || values[0] >= 0, "{} must be a nonnegative number, got {}", name,
         values[0]);
  ENSURE(config, one || values[0] <= values[1], "{} must be [smallest, largest], got [{}, {}]",
         name, values[0], values[1]);
  if (!one) return {values[0], values[1]};
  const double low = center - values[0];
  return {center == 1 ? std::max(low, 0.0) : low, center + values[0]};
}

/// Draws the order, by Fisher-Yates over brightness, contrast, saturation, hue; then the four
/// factors in the order of that list, whether or not they are used.
class ColorJitter final : public Transform {
 public:
  explicit ColorJitter(const spec::transform::ColorJitter& options)
      : ranges_{range_of("brightness", options.brightness.values, 1),
                range_of("contrast", options.contrast.values, 1),
                range_of("saturation", options.saturation.values, 1),
                range_of("hue", options.hue.values, 0)} {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    check_colors(input);
    return input;
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[rng.below(i + 1)]);
    std::array<double, 4> factors;
    for (std::size_t i = 0; i < 4; ++i)
      factors[i] = draw_between(rng, ranges_[i].low, ranges_[i].high);
    ImageView image = input;
    for (const std::size_t i : order) {
      const double center = i == 3 ? 0 : 1;
      if (ranges_[i].low == center && ranges_[i].high == center) continue;
      kAdjust[i](image, factors[i], output);
      image = output.view();  // in place from here on
    }
    if (image.pixels == input.pixels) output.copy(input);
  }

 private:
  std::array<Range, 4> ranges_;
};

/// Draws one coin.
class RandomGrayscale final : public Transform {
 public:
  explicit RandomGrayscale(const spec::transform::RandomGrayscale& options)
      : probability_(options.p) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    check_colors(input);
    return input;
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    to_grayscale(input, output);
  }

 private:
  double probability_;
};

/// Draws one coin.
class RandomInvert final : public Transform {
 public:
  explicit RandomInvert(const spec::transform::RandomInvert& options) : probability_(options.p) {}

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    invert(input, output);
  }

 private:
  double probability_;
};

}  // namespace

void register_transform_color_jitter(Catalog& catalog) {
  catalog.transforms["color_jitter"] = maker<ColorJitter, spec::transform::ColorJitter>();
}

void register_transform_random_grayscale(Catalog& catalog) {
  catalog.transforms["random_grayscale"] =
      maker<RandomGrayscale, spec::transform::RandomGrayscale>();
}

void register_transform_random_invert(Catalog& catalog) {
  catalog.transforms["random_invert"] = maker<RandomInvert, spec::transform::RandomInvert>();
}

void register_transform_normalize(Catalog& catalog) {
  catalog.normalizations["normalize"] = [](const config::Stage& stage) {
    const auto& options = stage.as<spec::transform::Normalize>();
    ENSURE(config, options.mean.size() == options.std.size(),
           "mean and std must have the same number of values, one per channel, got {} and {}",
           options.mean.size(), options.std.size());
    Normalization out;
    for (const double mean : options.mean) out.mean.push_back(static_cast<float>(mean));
    for (const double std : options.std) out.std.push_back(static_cast<float>(std));
    return out;
  };
}

}  // namespace trainctl::data
