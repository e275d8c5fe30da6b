#pragma once

#include "base/philox.hpp"

#include <cstdint>

namespace trainctl::data {

/// What the draws of a whole epoch are for; each purpose has a stream of its own.
enum class EpochStream : std::uint32_t { shuffle = 0, sampling = 1 };

/// Random words of one (seed, epoch), one after the other. No sample has this upper half of a position, so they are
/// nobody else's.
class WordStream {
 public:
  WordStream(std::uint64_t seed, std::int64_t epoch, EpochStream stream)
      : seed_(seed), counter_{0, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(stream), 0xFFFFFFFF} {}

  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox(seed_, counter_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Unbiased, in [0, bound): Lemire, "Fast random integer generation in an interval", 2019.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// In [0, 1), 53 bits.
  double uniform() {
    const std::uint64_t upper = next();
    return static_cast<double>(((upper << 32) | next()) >> 11) * 0x1.0p-53;
  }

 private:
  std::uint64_t seed_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  std::uint32_t used_ = 4;
};

}  // namespace trainctl::data
