#pragma once

#include "config/schema/schema.hpp"
#include "data/core/transform.hpp"

#include <functional>

namespace trainctl::data {

/// Returns a transform for images whose last channel is a mask. It moves the pixels of both in the
/// same way: masks without interpolation, and with 255 outside of the image. A transform that does
/// not move pixels changes only the image. `make` is the factory of the stage. Throws Error(config)
/// if the stage is not known to do one or the other.
std::shared_ptr<const Transform> joint_transform(
    const config::Stage& stage,
    const std::function<std::shared_ptr<const Transform>(const config::Stage&)>& make);

}  // namespace trainctl::data
