#pragma once

#include "device/gather.hpp"

// The kernels. augment.cu has them; no_augment.cpp, built instead where no CUDA compiler was found,
// says so.

namespace trainctl::device {

/// Whether this build has kernels.
bool kernels_built();

/// Starts the kernel that makes the batch, on a stream (a cudaStream_t) of the current device; all
/// pointers are the device's. Waits for nothing and allocates nothing. Returns what went wrong, or
/// null.
const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream);

}  // namespace trainctl::device
