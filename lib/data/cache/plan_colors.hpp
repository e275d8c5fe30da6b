#pragma once

#include "data/cache/device_images.hpp"
#include "data/loader/loader.hpp"

#include <string>

namespace trainctl::data {

/// What the transforms behind the fixed prefix are to a device that keeps the images: plans.
struct PlannedTail {
  std::string obstacle;  // why they cannot be planned, and what to do; empty: they can
  PlanColors colors;
};

/// `shape`: of the images behind the fixed prefix.
PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape);

}  // namespace trainctl::data
