#include "spec/transform/rand_augment.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/transform/augment.hpp"

namespace trainctl::data {
namespace {

/// Draws, for each operation: which one; then, where it has one, the sign.
class RandAugment final : public AugmentStage {
 public:
  explicit RandAugment(const spec::transform::RandAugment& options)
      : AugmentStage(options.interpolation, options.fill), options_(options) {
    ENSURE(config, options.magnitude < options.num_magnitude_bins,
           "magnitude is {}, but num_magnitude_bins is {}; write {} or less", options.magnitude,
           options.num_magnitude_bins, options.num_magnitude_bins - 1);
  }

  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return chain_bytes(input, options_.num_ops);
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    run_chain(input, options_.num_ops, output,
              [&](std::int64_t, const ImageView& from, ImageTarget& to) {
                const auto op = static_cast<AugmentOp>(rng.below(kChosenOps));
                run(from, AugmentSpace::standard, op,
                    {options_.magnitude, options_.num_magnitude_bins}, to, rng);
              });
  }

 private:
  spec::transform::RandAugment options_;
};

}  // namespace

void register_transform_rand_augment(Catalogue& catalogue) {
  catalogue.transforms["rand_augment"] = [](const config::Stage& stage) {
    return std::make_shared<const RandAugment>(stage.as<spec::transform::RandAugment>());
  };
}

}  // namespace trainctl::data
