#pragma once

#include "data/transform/augment.hpp"
#include "spec/transform/auto_augment.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace trainctl::data {

constexpr std::int64_t kAutoAugmentBins = 10;

struct PolicyStep {
  AugmentOp op;
  double probability;
  int bin;  // of kAutoAugmentBins
};
using AutoPolicy = std::array<PolicyStep, 2>;

/// One of them is drawn for each image.
std::span<const AutoPolicy> auto_policies(spec::transform::AutoAugmentPolicy policy);

}  // namespace trainctl::data
