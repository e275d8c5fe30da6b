#include "data/transform/auto_augment.hpp"

#include "data/core/registry.hpp"
#include "data/image/color.hpp"
#include "data/image/pixel_math.hpp"

namespace trainctl::data {
namespace {

/// torch.linspace in float32. It computes from both ends to the middle and rounds each multiply-add
/// once, which double arithmetic reproduces.
float linspace(double first, double last, std::int64_t bin, std::int64_t bins) {
  const auto begin = static_cast<float>(first);
  const auto end = static_cast<float>(last);
  const double step = (end - begin) / static_cast<float>(bins - 1);
  const double from_end = end - step * static_cast<double>(bins - bin - 1);
  return static_cast<float>(bin < bins / 2 ? begin + step * static_cast<double>(bin) : from_end);
}

/// Returns the largest magnitude of an operation whose magnitudes start at 0.
double largest(AugmentSpace space, AugmentOp op, const ImageShape& image) {
  const bool wide = space == AugmentSpace::wide;
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y: return wide ? 0.99 : 0.3;
    case AugmentOp::translate_x:
      return wide ? 32.0 : 150.0 / 331.0 * static_cast<double>(image.width);
    case AugmentOp::translate_y:
      return wide ? 32.0 : 150.0 / 331.0 * static_cast<double>(image.height);
    case AugmentOp::rotate: return wide ? 135.0 : 30.0;
    default: return wide ? 0.99 : 0.9;
  }
}

void move(const ImageView& input, const AffineMotion& motion, const Sampling& sampling,
          ImageTarget& output) {
  warp_affine(input, inverse_of(motion), input.shape, sampling, output);
}

/// The upper left corner is the fixed point of a shear.
AffineMotion shear(const ImageShape& image, double x, double y) {
  return {.shear_x = x,
          .shear_y = y,
          .center_x = -0.5 * static_cast<double>(image.width),
          .center_y = -0.5 * static_cast<double>(image.height)};
}

}  // namespace

MagnitudeKind magnitude_kind(AugmentOp op) {
  switch (op) {
    case AugmentOp::identity:
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize:
    case AugmentOp::invert: return MagnitudeKind::none;
    case AugmentOp::posterize:
    case AugmentOp::solarize: return MagnitudeKind::plain;
    default: return MagnitudeKind::either_sign;
  }
}

double magnitude(AugmentSpace space, AugmentOp op, std::array<std::int64_t, 2> bin_of_bins,
                 const ImageShape& image) {
  const auto [bin, bins] = bin_of_bins;
  ASSERT(bin >= 0 && bin < bins && bins >= 2);
  if (op == AugmentOp::solarize) return linspace(1.0, 0.0, bin, bins);
  if (op == AugmentOp::posterize) {
    const double lost =
        space == AugmentSpace::wide ? 6 : 4;  // bits dropped at the end of the table
    const auto each = static_cast<float>(static_cast<double>(bins - 1) / lost);
    return round_half_even(8.0F - static_cast<float>(bin) / each);
  }
  return linspace(0.0, largest(space, op, image), bin, bins);
}

void augment(const ImageView& input, AugmentOp op, double magnitude, const Sampling& sampling,
             ImageTarget& output) {
  switch (op) {
    case AugmentOp::identity: return output.copy(input);
    case AugmentOp::shear_x: return move(input, shear(input.shape, magnitude, 0), sampling, output);
    case AugmentOp::shear_y: return move(input, shear(input.shape, 0, magnitude), sampling, output);
    case AugmentOp::translate_x:
      return move(input, {.translate_x = std::trunc(magnitude)}, sampling, output);
    case AugmentOp::translate_y:
      return move(input, {.translate_y = std::trunc(magnitude)}, sampling, output);
    case AugmentOp::rotate: return rotate(input, {.degrees = magnitude}, sampling, output);
    case AugmentOp::brightness: return adjust_brightness(input, 1 + magnitude, output);
    case AugmentOp::color: return adjust_saturation(input, 1 + magnitude, output);
    case AugmentOp::contrast: return adjust_contrast(input, 1 + magnitude, output);
    case AugmentOp::sharpness: return adjust_sharpness(input, 1 + magnitude, output);
    case AugmentOp::posterize: return posterize(input, static_cast<int>(magnitude), output);
    case AugmentOp::solarize: return solarize(input, 255 * magnitude, output);
    case AugmentOp::auto_contrast: return autocontrast(input, output);
    case AugmentOp::equalize: return equalize(input, output);
    case AugmentOp::invert: return invert(input, output);
  }
}

namespace {

using Op = AugmentOp;

// Policies of "AutoAugment: Learning Augmentation Policies from Data" (Cubuk et al. 2019), in
// torchvision's order.
// clang-format off
constexpr AutoPolicy kImageNet[] = {
    {{{Op::posterize, 0.4, 8}, {Op::rotate, 0.6, 9}}},
    {{{Op::solarize, 0.6, 5}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::equalize, 0.8, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::posterize, 0.6, 7}, {Op::posterize, 0.6, 6}}},
    {{{Op::equalize, 0.4, 0}, {Op::solarize, 0.2, 4}}},
    {{{Op::equalize, 0.4, 0}, {Op::rotate, 0.8, 8}}},
    {{{Op::solarize, 0.6, 3}, {Op::equalize, 0.6, 0}}},
    {{{Op::posterize, 0.8, 5}, {Op::equalize, 1.0, 0}}},
    {{{Op::rotate, 0.2, 3}, {Op::solarize, 0.6, 8}}},
    {{{Op::equalize, 0.6, 0}, {Op::posterize, 0.4, 6}}},
    {{{Op::rotate, 0.8, 8}, {Op::color, 0.4, 0}}},
    {{{Op::rotate, 0.4, 9}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.0, 0}, {Op::equalize, 0.8, 0}}},
    {{{Op::invert, 0.6, 0}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.6, 4}, {Op::contrast, 1.0, 8}}},
    {{{Op::rotate, 0.8, 8}, {Op::color, 1.0, 2}}},
    {{{Op::color, 0.8, 8}, {Op::solarize, 0.8, 7}}},
    {{{Op::sharpness, 0.4, 7}, {Op::invert, 0.6, 0}}},
    {{{Op::shear_x, 0.6, 5}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.4, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.4, 0}, {Op::solarize, 0.2, 4}}},
    {{{Op::solarize, 0.6, 5}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::invert, 0.6, 0}, {Op::equalize, 1.0, 0}}},
    {{{Op::color, 0.6, 4}, {Op::contrast, 1.0, 8}}},
    {{{Op::equalize, 0.8, 0}, {Op::equalize, 0.6, 0}}},
};

constexpr AutoPolicy kCifar10[] = {
    {{{Op::invert, 0.1, 0}, {Op::contrast, 0.2, 6}}},
    {{{Op::rotate, 0.7, 2}, {Op::translate_x, 0.3, 9}}},
    {{{Op::sharpness, 0.8, 1}, {Op::sharpness, 0.9, 3}}},
    {{{Op::shear_y, 0.5, 8}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.5, 0}, {Op::equalize, 0.9, 0}}},
    {{{Op::shear_y, 0.2, 7}, {Op::posterize, 0.3, 7}}},
    {{{Op::color, 0.4, 3}, {Op::brightness, 0.6, 7}}},
    {{{Op::sharpness, 0.3, 9}, {Op::brightness, 0.7, 9}}},
    {{{Op::equalize, 0.6, 0}, {Op::equalize, 0.5, 0}}},
    {{{Op::contrast, 0.6, 7}, {Op::sharpness, 0.6, 5}}},
    {{{Op::color, 0.7, 7}, {Op::translate_x, 0.5, 8}}},
    {{{Op::equalize, 0.3, 0}, {Op::auto_contrast, 0.4, 0}}},
    {{{Op::translate_y, 0.4, 3}, {Op::sharpness, 0.2, 6}}},
    {{{Op::brightness, 0.9, 6}, {Op::color, 0.2, 8}}},
    {{{Op::solarize, 0.5, 2}, {Op::invert, 0.0, 0}}},
    {{{Op::equalize, 0.2, 0}, {Op::auto_contrast, 0.6, 0}}},
    {{{Op::equalize, 0.2, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::color, 0.9, 9}, {Op::equalize, 0.6, 0}}},
    {{{Op::auto_contrast, 0.8, 0}, {Op::solarize, 0.2, 8}}},
    {{{Op::brightness, 0.1, 3}, {Op::color, 0.7, 0}}},
    {{{Op::solarize, 0.4, 5}, {Op::auto_contrast, 0.9, 0}}},
    {{{Op::translate_y, 0.9, 9}, {Op::translate_y, 0.7, 9}}},
    {{{Op::auto_contrast, 0.9, 0}, {Op::solarize, 0.8, 3}}},
    {{{Op::equalize, 0.8, 0}, {Op::invert, 0.1, 0}}},
    {{{Op::translate_y, 0.7, 9}, {Op::auto_contrast, 0.9, 0}}},
};

constexpr AutoPolicy kSvhn[] = {
    {{{Op::shear_x, 0.9, 4}, {Op::invert, 0.2, 0}}},
    {{{Op::shear_y, 0.9, 8}, {Op::invert, 0.7, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::solarize, 0.6, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::rotate, 0.9, 3}}},
    {{{Op::shear_x, 0.9, 4}, {Op::auto_contrast, 0.8, 0}}},
    {{{Op::shear_y, 0.9, 8}, {Op::invert, 0.4, 0}}},
    {{{Op::shear_y, 0.9, 5}, {Op::solarize, 0.2, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::auto_contrast, 0.8, 0}}},
    {{{Op::equalize, 0.6, 0}, {Op::rotate, 0.9, 3}}},
    {{{Op::shear_x, 0.9, 4}, {Op::solarize, 0.3, 3}}},
    {{{Op::shear_y, 0.8, 8}, {Op::invert, 0.7, 0}}},
    {{{Op::equalize, 0.9, 0}, {Op::translate_y, 0.6, 6}}},
    {{{Op::invert, 0.9, 0}, {Op::equalize, 0.6, 0}}},
    {{{Op::contrast, 0.3, 3}, {Op::rotate, 0.8, 4}}},
    {{{Op::invert, 0.8, 0}, {Op::translate_y, 0.0, 2}}},
    {{{Op::shear_y, 0.7, 6}, {Op::solarize, 0.4, 8}}},
    {{{Op::invert, 0.6, 0}, {Op::rotate, 0.8, 4}}},
    {{{Op::shear_y, 0.3, 7}, {Op::translate_x, 0.9, 3}}},
    {{{Op::shear_x, 0.1, 6}, {Op::invert, 0.6, 0}}},
    {{{Op::solarize, 0.7, 2}, {Op::translate_y, 0.6, 7}}},
    {{{Op::shear_y, 0.8, 4}, {Op::invert, 0.8, 0}}},
    {{{Op::shear_x, 0.7, 9}, {Op::translate_y, 0.8, 3}}},
    {{{Op::shear_y, 0.8, 5}, {Op::auto_contrast, 0.7, 0}}},
    {{{Op::shear_x, 0.7, 2}, {Op::invert, 0.1, 0}}},
};
// clang-format on

}  // namespace

std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy) {
  switch (policy) {
    case spec::transform::AutoAugmentPolicy::imagenet: return kImageNet;
    case spec::transform::AutoAugmentPolicy::cifar10: return kCifar10;
    case spec::transform::AutoAugmentPolicy::svhn: return kSvhn;
  }
  return kImageNet;
}

namespace {

/// The base class of the AutoAugment family, for images of 1 or 3 channels; keeps the shape.
class AugmentStage : public Transform {
 public:
  AugmentStage(spec::transform::Interpolation interpolation,
               const std::optional<config::OneOrMore<int>>& fill)
      : sampling_{interpolation, fill ? std::optional(Fill(fill->values)) : std::nullopt} {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const final {
    check_colors(input);
    if (sampling_.fill) sampling_.fill->check(input.channels);
    return input;
  }

 protected:
  /// Draws the sign if the operation has one. `bin_of_bins` is passed to magnitude().
  void run(const ImageView& input, AugmentSpace space, AugmentOp op,
           std::array<std::int64_t, 2> bin_of_bins, ImageTarget& output, CounterRng& rng) const {
    const MagnitudeKind kind = magnitude_kind(op);
    double strength =
        kind == MagnitudeKind::none ? 0 : magnitude(space, op, bin_of_bins, input.shape);
    if (kind == MagnitudeKind::either_sign && rng.coin(0.5)) strength = -strength;
    augment(input, op, strength, sampling_, output);
  }

 private:
  Sampling sampling_;
};

/// Returns the bytes that run_chain() keeps for that many steps on images of that shape.
std::uint64_t chain_bytes(const ImageShape& shape, std::int64_t steps) {
  return shape.bytes() * static_cast<std::uint64_t>(std::clamp<std::int64_t>(steps - 1, 0, 2));
}

/// Calls `step(k, input, output)` for k = 0 ... steps - 1, each with the output of the previous
/// step. The intermediate images alternate between two thread-local buffers.
template <class Step>
void run_chain(ImageView input, std::int64_t steps, ImageTarget& output, Step&& step) {
  thread_local std::array<std::vector<std::uint8_t>, 2> buffers;
  if (steps == 0) return output.copy(input);
  for (std::int64_t k = 0; k + 1 < steps; ++k) {
    ImageTarget between(buffers[static_cast<std::size_t>(k % 2)]);
    step(k, input, between);
    input = between.view();
  }
  step(steps - 1, input, output);
}

/// Draws the pair; then, for each of its two operations, the coin and, if the operation is applied
/// and has a sign, the sign.
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

/// Draws, for each operation, which one; then the sign if it has one.
class RandAugment final : public AugmentStage {
 public:
  explicit RandAugment(const spec::transform::RandAugment& options)
      : AugmentStage(options.interpolation, options.fill), options_(options) {
    ENSURE(config, options.magnitude < options.num_magnitude_bins,
           "magnitude must be below num_magnitude_bins ({}), got {}", options.num_magnitude_bins,
           options.magnitude);
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

/// Draws the operation; then, if it has a magnitude, the bin and the sign.
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

void register_transform_auto_augment(Catalog& catalog) {
  catalog.transforms["auto_augment"] = maker<AutoAugment, spec::transform::AutoAugment>();
}

void register_transform_rand_augment(Catalog& catalog) {
  catalog.transforms["rand_augment"] = maker<RandAugment, spec::transform::RandAugment>();
}

void register_transform_trivial_augment_wide(Catalog& catalog) {
  catalog.transforms["trivial_augment_wide"] =
      maker<TrivialAugmentWide, spec::transform::TrivialAugmentWide>();
}

}  // namespace trainctl::data
