#include "spec/transform/auto_augment.hpp"

#include "data/core/registry.hpp"
#include "data/transform/augment.hpp"

namespace trainctl::data {
namespace {

/// Draws: the pair; then, for each of its two operations, the coin and, where it is made and has
/// one, the sign.
class AutoAugment final : public AugmentStage {
 public:
  explicit AutoAugment(const spec::transform::AutoAugment& options)
      : AugmentStage(options.interpolation, options.fill),
        policies_(auto_policies(options.policy)) {}

  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return chain_bytes(input, std::tuple_size_v<AutoPolicy>);
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    const AutoPolicy& policy = policies_[rng.below(policies_.size())];
    run_chain(input, std::ssize(policy), output,
              [&](std::int64_t k, const ImageView& from, ImageTarget& to) {
                const PolicyStep& step = policy[static_cast<std::size_t>(k)];
                if (!rng.coin(step.probability)) return to.copy(from);
                run(from, AugmentSpace::standard, step.op, {step.bin, kAutoAugmentBins}, to, rng);
              });
  }

 private:
  std::span<const AutoPolicy> policies_;
};

}  // namespace

void register_transform_auto_augment(Catalogue& catalogue) {
  catalogue.transforms["auto_augment"] = [](const config::Stage& stage) {
    return std::make_shared<const AutoAugment>(stage.as<spec::transform::AutoAugment>());
  };
}

}  // namespace trainctl::data
