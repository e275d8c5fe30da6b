#pragma once

#include "study/bench/parameter_grid.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace trainctl::study {

/// The number of devices of a setting; nothing where it does not name one. Throws Error(config)
/// where it names something else, such as `auto`.
std::optional<int> devices_of(const Setting& setting);

/// The batch of a device of `setting`, by the experiment with its overrides.
using BatchOf = std::function<std::int64_t(const Setting& setting)>;

/// Strong scaling: each setting gets the batch of a device with which a step keeps the samples that
/// it has with the first number of devices. Throws Error(config) where these do not divide, and
/// where no setting names devices.
void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of);

}  // namespace trainctl::study
