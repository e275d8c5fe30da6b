#include "spec/transform/random_horizontal_flip.hpp"

#include "data/registry.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

class RandomHorizontalFlip final : public Transform {
 public:
  explicit RandomHorizontalFlip(double probability) : probability_(probability) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override { return input; }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    if (!rng.coin(probability_)) return output.copy(input);
    output.resize(input.shape);
    const auto [height, width, channels] = input.shape;
    for (std::int64_t y = 0; y < height; ++y) {
      const std::uint8_t* from = input.row(y) + (width - 1) * channels;
      std::uint8_t* to = output.row(y);
      for (std::int64_t x = 0; x < width; ++x, from -= channels, to += channels) std::copy_n(from, channels, to);
    }
  }

 private:
  double probability_;
};

}  // namespace

void register_transform_random_horizontal_flip(Catalogue& catalogue) {
  catalogue.transforms["random_horizontal_flip"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomHorizontalFlip>(stage.as<spec::transform::RandomHorizontalFlip>().p);
  };
}

}  // namespace trainctl::data
