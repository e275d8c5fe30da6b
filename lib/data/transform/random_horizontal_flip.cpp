#include "spec/transform/random_horizontal_flip.hpp"

#include "data/registry.hpp"

#include <algorithm>
#include <cstring>

namespace trainctl::data {
namespace {

class RandomHorizontalFlip final : public Transform {
 public:
  explicit RandomHorizontalFlip(double probability) : probability_(probability) {}

  [[nodiscard]] Field output(const Field& input) const override { return input; }

  void apply(std::span<const std::byte> input, const Field& from, std::span<std::byte> output, const Field&,
             CounterRng& rng) const override {
    if (!rng.coin(probability_)) {
      std::memcpy(output.data(), input.data(), input.size());
      return;
    }
    const auto width = static_cast<std::size_t>(from.shape[1]);
    const auto channels = static_cast<std::size_t>(from.shape[2]);
    for (std::size_t row = 0; row < input.size(); row += width * channels) {
      for (std::size_t column = 0; column < width; ++column) {
        const auto pixel = input.subspan(row + (width - 1 - column) * channels, channels);
        std::copy(pixel.begin(), pixel.end(), output.begin() + static_cast<std::ptrdiff_t>(row + column * channels));
      }
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
