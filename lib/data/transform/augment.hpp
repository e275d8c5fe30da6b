#pragma once

#include "config/schema/codec.hpp"
#include "data/core/transform.hpp"
#include "data/image/color.hpp"
#include "data/image/image.hpp"
#include "data/image/warp.hpp"
#include "spec/transform/auto_augment.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::data {

/// The operations of torchvision's AutoAugment family.
enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert
};
/// Those that TrivialAugmentWide and RandAugment choose from: all but invert.
constexpr std::int64_t kChosenOps = 14;

/// Whether an operation has a magnitude, and whether that goes both ways.
enum class MagnitudeKind { none, plain, either_sign };
MagnitudeKind magnitude_kind(AugmentOp op);

/// Which of torchvision's tables of magnitudes.
enum class AugmentSpace {
  standard,
  wide
};  // of AutoAugment and RandAugment; of TrivialAugmentWide

/// Entry `bin` of `bins` (2 or more), in torchvision's float32.
double magnitude(AugmentSpace space, AugmentOp op, std::array<std::int64_t, 2> bin_of_bins,
                 const ImageShape& image);

/// One operation, with its magnitude where it has one. `output` must lie elsewhere.
void augment(const ImageView& input, AugmentOp op, double magnitude, const Sampling& sampling,
             ImageTarget& output);

constexpr std::int64_t kAutoAugmentBins = 10;

struct PolicyStep {
  AugmentOp op;
  double probability;
  int bin;  // of kAutoAugmentBins
};
using AutoPolicy = std::array<PolicyStep, 2>;

/// One of them is drawn for each image.
std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy);

/// What the stages of the AutoAugment family share: images of 1 or 3 channels, whose shape stays.
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

  [[nodiscard]] bool random() const final { return true; }

 protected:
  /// Draws the sign where the operation has one; `bin_of_bins` as magnitude() takes it.
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

/// Images between the steps of one transform: a pair of buffers for each thread, kept from call to
/// call.
std::array<std::vector<std::uint8_t>, 2>& chain_buffers();

/// Bytes of them after a chain of so many steps on images of that shape.
inline std::uint64_t chain_bytes(const ImageShape& shape, std::int64_t steps) {
  return shape.bytes() * static_cast<std::uint64_t>(std::clamp<std::int64_t>(steps - 1, 0, 2));
}

/// Calls `step(k, input, output)` for k = 0 ... steps - 1, each on what the one before made.
template <class Step>
void run_chain(ImageView input, std::int64_t steps, ImageTarget& output, Step&& step) {
  if (steps == 0) return output.copy(input);
  auto& buffers = chain_buffers();
  for (std::int64_t k = 0; k + 1 < steps; ++k) {
    ImageTarget between(buffers[static_cast<std::size_t>(k % 2)]);
    step(k, input, between);
    input = between.view();
  }
  step(steps - 1, input, output);
}

}  // namespace trainctl::data
