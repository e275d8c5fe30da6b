#include "base/machine/cuda_errors.hpp"

#include "support/catch.hpp"

using trainctl::cuda_fault;
using trainctl::CudaFault;

TEST_CASE("cuda_fault: codes of memory, hardware and kernels have a cause, and others have none") {
  CHECK(cuda_fault(2) == CudaFault::out_of_memory);
  for (const int code : {3,   35,  36,  46,  100, 101, 209, 214, 220, 221, 222, 226,
                         802, 803, 804, 805, 806, 807, 808, 809, 810, 911, 999}) {
    CAPTURE(code);
    CHECK(cuda_fault(code) == CudaFault::hardware);
  }
  for (const int code : {700, 702, 710, 714, 715, 716, 717, 718, 719, 721}) {
    CAPTURE(code);
    CHECK(cuda_fault(code) == CudaFault::kernel);
  }
  for (const int code : {0, 1, 4, 98, 701, 709, 900, 901, -1}) {
    CAPTURE(code);
    CHECK(cuda_fault(code) == CudaFault::other);
  }
}
