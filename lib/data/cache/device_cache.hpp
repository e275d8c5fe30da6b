#pragma once

#include "data/cache/cached_dataset.hpp"
#include "data/cache/device_images.hpp"
#include "data/loader/loader.hpp"

#include <string>

namespace trainctl::data {

/// The pipeline with its images on the device: each is made once, in the order of the data set, by
/// `threads` threads; a damaged one is left to the loader. Only the random transforms are left.
/// Throws Error(config) where they cannot be planned, Error(resource) where the images do not fit.
Pipeline hold_images(Pipeline pipeline, const ImageDevice& device, const Progress& progress = {},
                     int threads = 1);

/// What the transforms behind the fixed prefix are to a device that keeps the images: plans.
struct PlannedTail {
  std::string obstacle;  // why they cannot be planned, and what to do; empty: they can
  PlanColors colors;
};

/// `shape`: of the images behind the fixed prefix.
PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape);

}  // namespace trainctl::data
