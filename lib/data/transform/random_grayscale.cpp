#include "spec/transform/random_grayscale.hpp"

#include "data/core/registry.hpp"
#include "data/image/color.hpp"

namespace trainctl::data {
namespace {

/// Draws: one coin.
class RandomGrayscale final : public Transform {
 public:
  explicit RandomGrayscale(const spec::transform::RandomGrayscale& options)
      : probability_(options.p) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    check_colors(input);
    return input;
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    to_grayscale(input, output);
  }

 private:
  double probability_;
};

}  // namespace

void register_transform_random_grayscale(Catalogue& catalogue) {
  catalogue.transforms["random_grayscale"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomGrayscale>(stage.as<spec::transform::RandomGrayscale>());
  };
}

}  // namespace trainctl::data
