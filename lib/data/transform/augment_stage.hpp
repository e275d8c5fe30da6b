#pragma once

#include "config/schema/codec.hpp"
#include "data/core/transform.hpp"
#include "data/image/color.hpp"
#include "data/transform/augment.hpp"

#include <optional>

namespace trainctl::data {

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

}  // namespace trainctl::data
