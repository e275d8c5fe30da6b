#include "spec/transform/random_horizontal_flip.hpp"

#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"

namespace trainctl::data {
namespace {

/// Draws: one coin.
class RandomHorizontalFlip final : public Transform {
 public:
  explicit RandomHorizontalFlip(double probability) : probability_(probability) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override { return input; }
  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    horizontal_flip(input, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override { return Paint(); }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    if (rng.coin(probability_)) image.mirror_columns();
  }

 private:
  double probability_;
};

}  // namespace

void register_transform_random_horizontal_flip(Catalogue& catalogue) {
  catalogue.transforms["random_horizontal_flip"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomHorizontalFlip>(
        stage.as<spec::transform::RandomHorizontalFlip>().p);
  };
}

}  // namespace trainctl::data
