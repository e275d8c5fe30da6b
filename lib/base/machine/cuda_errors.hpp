#pragma once

#include <algorithm>
#include <array>

namespace trainctl {

/// The cause that an error code of CUDA names.
enum class CudaFault { other, out_of_memory, hardware, kernel };

inline constexpr int kCudaAssertion = 710;  // of a kernel

/// Returns the cause of a cudaError_t. Its values are numbers here, because most of the program is
/// built without CUDA's headers.
constexpr CudaFault cuda_fault(int code) {
  constexpr int kOutOfMemory = 2;
  // The GPU, its link or its driver has failed or cannot be used: initialization, old driver, busy
  // device, no device, no code for the device, ECC, NVLink, containment, system driver, MPS,
  // external device, unknown.
  constexpr std::array kHardware{3,   35,  36,  46,  100, 101, 209, 214, 220, 221, 222, 226,
                                 802, 803, 804, 805, 806, 807, 808, 809, 810, 911, 999};
  // A kernel has failed: illegal address, timeout, assertion, stack, instruction, alignment,
  // address space, program counter, launch failure, tensor memory. CUDA rejects all later work of
  // the process.
  constexpr std::array kKernel{700, 702, kCudaAssertion, 714, 715, 716, 717, 718, 719, 721};
  if (code == kOutOfMemory) return CudaFault::out_of_memory;
  if (std::ranges::find(kHardware, code) != kHardware.end()) return CudaFault::hardware;
  if (std::ranges::find(kKernel, code) != kKernel.end()) return CudaFault::kernel;
  return CudaFault::other;
}

inline constexpr const char* kHardwareHint =
    "run 'trainctl doctor'; 'dmesg | grep Xid' shows the errors of NVIDIA's driver";
inline constexpr const char* kKernelHint =
    "set the environment variable CUDA_LAUNCH_BLOCKING=1 and repeat the run: the error is then "
    "reported by the operation that fails";

}  // namespace trainctl
