#pragma once

#include "spec/experiment/experiment.hpp"

#include <c10/core/Device.h>

namespace trainctl::device {

/// The device of this rank: `auto` takes a GPU where one is there, else the CPU. Throws
/// Error(resource) where a GPU is asked for and GPU `local_rank` is not there.
c10::Device choose_device(spec::Accelerator accelerator, int local_rank);

}  // namespace trainctl::device
