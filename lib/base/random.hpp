#pragma once

#include <array>
#include <cstdint>

namespace trainctl {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128
/// random bits that are a pure function of key and counter.
PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter);

/// The answers to counter, counter with its first word 1 higher, and so on: the same words, with
/// the rounds of all blocks interleaved.
using PhiloxBlocks = std::array<PhiloxBlock, 8>;
PhiloxBlocks philox_blocks(std::uint64_t key, const PhiloxBlock& counter);

/// The draws of one (epoch, position, operation): any thread may make them in any order and get the
/// same values.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t position,
             std::uint16_t operation);

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// In [0, 1), 24 bits.
  float uniform();
  /// In [0, bound), unbiased (Lemire's rejection). `bound` must be above 0.
  std::uint64_t below(std::uint64_t bound);
  bool coin(double probability);

 private:
  std::uint64_t key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  std::uint32_t used_ = 4;
};

// Functions whose last bits libm leaves to the machine, here from IEEE additions, multiplications
// and divisions in one order: the same bits everywhere, for draws and parameters that decide
// pixels. Good to about 1e-15.

double portable_exp(double x);
/// `x` must be above 0.
double portable_log(double x);

struct SinCos {
  double sin = 0;
  double cos = 1;
};
SinCos sin_cos_degrees(double degrees);

}  // namespace trainctl
