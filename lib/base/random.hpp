#pragma once

#include <array>
#include <cstdint>

namespace trainctl {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Computes Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
/// 128 random bits that are a pure function of key and counter.
PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter);

/// Computes philox() for `counter` and the seven counters after it, whose first words are 1 to 7
/// higher. The results are the same; the rounds of all blocks are interleaved for speed.
using PhiloxBlocks = std::array<PhiloxBlock, 8>;
PhiloxBlocks philox_blocks(std::uint64_t key, const PhiloxBlock& counter);

/// The random numbers of one (epoch, position, operation). Any thread can generate them in any
/// order and gets the same values.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t position,
             std::uint16_t operation);

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// Returns a number in [0, 1) with 24 random bits.
  float uniform();
  /// Returns a number in [0, bound), unbiased (Lemire's rejection). `bound` must be above 0.
  std::uint64_t below(std::uint64_t bound);
  /// Returns true with the given probability.
  bool coin(double probability);
  /// Inverts the bits of all following numbers (antithetic numbers): a coin with probability 0.5
  /// then shows its other side.
  void invert() { mask_ = ~mask_; }

 private:
  std::uint64_t key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  std::uint32_t used_ = 4;
  std::uint32_t mask_ = 0;
};

// The last bits of these functions differ between versions of libm. Here they consist of IEEE
// additions, multiplications and divisions in a fixed order, so that draws and parameters that
// decide pixels have the same bits on every machine. The relative error is about 1e-15.

double portable_exp(double x);
/// `x` must be above 0.
double portable_log(double x);

struct SinCos {
  double sin = 0;
  double cos = 1;
};
/// Returns sine and cosine; exact for multiples of 90 degrees.
SinCos sin_cos_degrees(double degrees);

}  // namespace trainctl
