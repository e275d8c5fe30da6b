#pragma once

#include <cmath>
#include <cstdint>

// Arithmetic that the kernels share with their CPU implementations, so that tests on a CPU cover
// the code of the kernels. Several lanes share a row: a lane is a thread on a GPU, and a turn of a
// loop on a CPU. The CUDA compiler reads this file, too: C++17 and plain types only.

// A constexpr function that is not valid as such, because it converts pointers, would be silently
// left out of a kernel, so these functions are marked for both.
#ifdef __CUDACC__
#define TRAINCTL_HOST_DEVICE __host__ __device__ inline
#else
#define TRAINCTL_HOST_DEVICE inline
#endif

namespace trainctl::device {

/// The type of the elements that a job reads and writes; all arithmetic is in float32.
enum class Element { float32, bfloat16, float16 };

constexpr int kPackBytes = 16;  // the widest load of a thread
constexpr int kWarp = 32;       // threads

/// Elements that a lane processes together.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

/// The number of elements in the widest load.
template <class T>
constexpr int kPackOf = kPackBytes / static_cast<int>(sizeof(T));

/// Loads elements as float32. `from` is aligned to the smaller of kPackBytes and the size of the
/// elements.
template <int kCount, class T>
TRAINCTL_HOST_DEVICE Pack<float, kCount> load(const T* from) {
  constexpr int kStep = kCount < kPackOf<T> ? kCount : kPackOf<T>;
  Pack<float, kCount> all{};
  for (int first = 0; first < kCount; first += kStep) {
    const Pack<T, kStep> part = *reinterpret_cast<const Pack<T, kStep>*>(from + first);
    for (int i = 0; i < kStep; ++i) all.values[first + i] = static_cast<float>(part.values[i]);
  }
  return all;
}

/// Rounds float32 to the element type and stores it; the alignment is that of `load`.
template <int kCount, class T>
TRAINCTL_HOST_DEVICE void store(T* to, const Pack<float, kCount>& all) {
  constexpr int kStep = kCount < kPackOf<T> ? kCount : kPackOf<T>;
  for (int first = 0; first < kCount; first += kStep) {
    Pack<T, kStep> part;
    for (int i = 0; i < kStep; ++i) part.values[i] = static_cast<T>(all.values[first + i]);
    T* place = to + first;
#ifdef __CUDA_ARCH__
    asm("" : "+l"(place));  // otherwise the compiler may store single elements
#endif
    *reinterpret_cast<Pack<T, kStep>*>(place) = part;
  }
}

/// Returns exp(x) by the power of two that GPUs have an instruction for.
TRAINCTL_HOST_DEVICE float exponential(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  return std::exp2(x * kLog2E);
}

}  // namespace trainctl::device
