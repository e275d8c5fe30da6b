#include "spec/transform/trivial_augment_wide.hpp"

#include "data/core/registry.hpp"
#include "data/transform/augment.hpp"

namespace trainctl::data {
namespace {

/// Draws: the operation; then, where it has a magnitude, its bin and its sign.
class TrivialAugmentWide final : public AugmentStage {
 public:
  explicit TrivialAugmentWide(const spec::transform::TrivialAugmentWide& options)
      : AugmentStage(options.interpolation, options.fill), bins_(options.num_magnitude_bins) {}

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    const auto op = static_cast<AugmentOp>(rng.below(kChosenOps));
    std::int64_t bin = 0;
    if (magnitude_kind(op) != MagnitudeKind::none) {
      bin = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(bins_)));
    }
    run(input, AugmentSpace::wide, op, {bin, bins_}, output, rng);
  }

 private:
  std::int64_t bins_;
};

}  // namespace

void register_transform_trivial_augment_wide(Catalogue& catalogue) {
  catalogue.transforms["trivial_augment_wide"] = [](const config::Stage& stage) {
    return std::make_shared<const TrivialAugmentWide>(
        stage.as<spec::transform::TrivialAugmentWide>());
  };
}

}  // namespace trainctl::data
