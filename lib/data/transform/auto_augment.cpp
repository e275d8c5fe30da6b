#include "spec/transform/auto_augment.hpp"

#include "base/error.hpp"
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

void register_transform_auto_augment(Catalogue& catalogue) {
  catalogue.transforms["auto_augment"] = [](const config::Stage& stage) {
    return std::make_shared<const AutoAugment>(stage.as<spec::transform::AutoAugment>());
  };
}

void register_transform_rand_augment(Catalogue& catalogue) {
  catalogue.transforms["rand_augment"] = [](const config::Stage& stage) {
    return std::make_shared<const RandAugment>(stage.as<spec::transform::RandAugment>());
  };
}

void register_transform_trivial_augment_wide(Catalogue& catalogue) {
  catalogue.transforms["trivial_augment_wide"] = [](const config::Stage& stage) {
    return std::make_shared<const TrivialAugmentWide>(
        stage.as<spec::transform::TrivialAugmentWide>());
  };
}

}  // namespace trainctl::data
