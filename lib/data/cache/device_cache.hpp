#pragma once

#include "data/cache/cached_dataset.hpp"

namespace trainctl::data {

/// Returns the pipeline with its images in device memory. `threads` threads make each image once,
/// in the order of the data set; the loader reports damaged images. Only the random transforms
/// remain in the pipeline. Throws Error(config) when the random transforms cannot be planned,
/// Error(resource) when the images do not fit.
Pipeline hold_images(Pipeline pipeline, const ImageDevice& device, const Progress& progress = {},
                     int threads = 1);

/// Describes whether a device that holds the images can apply the random transforms as plans.
struct PlannedTail {
  std::string obstacle;  // why not, and what to do; empty when it can
  PlanColors colors;
};

/// Checks the transforms after the fixed prefix, whose output has the shape `shape`.
PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape);

}  // namespace trainctl::data
