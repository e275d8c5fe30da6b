#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

constexpr int kAttempts = 10;

/// Draws the coin; then area and ratio, up to ten times, until the rectangle fits; then top and
/// left.
class RandomErasing final : public Transform {
 public:
  explicit RandomErasing(const spec::transform::RandomErasing& options)
      : options_(options),
        value_(options.value.values),
        log_ratio_{portable_log(options.ratio[0]), portable_log(options.ratio[1])} {
    ENSURE(config, options.scale[0] <= options.scale[1],
           "scale must be [smallest, largest], got [{}, {}]", options.scale[0], options.scale[1]);
    ENSURE(config, options.ratio[0] <= options.ratio[1],
           "ratio must be [smallest, largest], got [{}, {}]", options.ratio[0], options.ratio[1]);
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    value_.check(input.channels);
    return input;
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    Box box;
    if (!rng.coin(options_.p) || !draw_box(input.shape, rng, box)) return output.copy(input);
    erase(input, box, value_, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override {
    return Paint{.erased = value_};
  }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    Box box;
    if (rng.coin(options_.p) && draw_box(image.shape(), rng, box)) image.erase(box);
  }

 private:
  [[nodiscard]] bool draw_box(const ImageShape& image, CounterRng& rng, Box& box) const {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double share = draw_between(rng, options_.scale[0], options_.scale[1]);
      const double area = static_cast<double>(image.height * image.width) * share;
      const double ratio = portable_exp(draw_between(rng, log_ratio_[0], log_ratio_[1]));
      box.height = std::llrint(std::sqrt(area * ratio));
      box.width = std::llrint(std::sqrt(area / ratio));
      if (box.height >= image.height || box.width >= image.width) continue;
      box.top = draw_place(image.height, box.height, rng);
      box.left = draw_place(image.width, box.width, rng);
      return true;
    }
    return false;
  }

  spec::transform::RandomErasing options_;
  Fill value_;
  std::array<double, 2> log_ratio_;
};

}  // namespace

void register_transform_random_erasing(Catalog& catalog) {
  catalog.transforms["random_erasing"] = maker<RandomErasing, spec::transform::RandomErasing>();
}

}  // namespace trainctl::data
