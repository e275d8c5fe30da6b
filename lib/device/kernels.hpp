#pragma once

#include "device/gather.hpp"
#include "device/row_entropy.hpp"

// The kernels. augment.cu and row_entropy.cu have them; no_augment.cpp and no_row_entropy.cpp,
// built instead where no CUDA compiler was found, say so.

namespace trainctl::device {

/// Whether this build has kernels.
bool kernels_built();

/// Starts the kernel that makes the batch, on a stream (a cudaStream_t) of the current device; all
/// pointers are the device's. Waits for nothing and allocates nothing. Returns what went wrong, or
/// null.
const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream);

/// The same of the kernel that makes losses and gradients. A row's numbers are added in one order,
/// so they have the same bits every time.
const char* launch_row_entropy(const RowEntropy& job, void* stream);

}  // namespace trainctl::device
