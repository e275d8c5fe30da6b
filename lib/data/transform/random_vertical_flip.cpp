#include "spec/transform/random_vertical_flip.hpp"

#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"

namespace trainctl::data {
namespace {

/// Draws: one coin.
class RandomVerticalFlip final : public Transform {
 public:
  explicit RandomVerticalFlip(double probability) : probability_(probability) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override { return input; }
  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    vertical_flip(input, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override { return Paint(); }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    if (rng.coin(probability_)) image.mirror_rows();
  }

 private:
  double probability_;
};

}  // namespace

void register_transform_random_vertical_flip(Catalogue& catalogue) {
  catalogue.transforms["random_vertical_flip"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomVerticalFlip>(
        stage.as<spec::transform::RandomVerticalFlip>().p);
  };
}

}  // namespace trainctl::data
