#include "base/random.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl {
namespace {

constexpr std::uint64_t kMultiplierA = 0xD2511F53;
constexpr std::uint64_t kMultiplierB = 0xCD9E8D57;
constexpr std::uint32_t kWeylA = 0x9E3779B9;
constexpr std::uint32_t kWeylB = 0xBB67AE85;
constexpr int kRounds = 10;

__extension__ using Wide = unsigned __int128;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

PhiloxBlock mixed(const PhiloxBlock& counter, std::uint32_t key_a, std::uint32_t key_b) {
  const std::uint64_t a = kMultiplierA * counter[0];
  const std::uint64_t b = kMultiplierB * counter[2];
  return {high(b) ^ counter[1] ^ key_a, low(b), high(a) ^ counter[3] ^ key_b, low(a)};
}

// From the C library, the portable functions call only those that are exact and therefore the same
// on every machine: frexp, ldexp, fmod and nearbyint.

// ln 2 is split into two parts: the first has few enough bits that small multiples of it are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kRadians = 0x1.1df46a2529d39p-6;  // pi / 180

/// Returns the sine and cosine of an angle of at most pi / 4 from their Taylor series.
SinCos series(double x) {
  const double square = x * x;
  double sin = 0;
  double cos = 0;
  for (int n = 19; n >= 3; n -= 2) sin = (1 - sin) * square / (n * (n - 1));
  for (int n = 20; n >= 2; n -= 2) cos = (1 - cos) * square / (n * (n - 1));
  return {x * (1 - sin), 1 - cos};
}

}  // namespace

PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  std::uint32_t key_a = low(key);
  std::uint32_t key_b = high(key);
  for (int round = 0; round < kRounds; ++round) {
    counter = mixed(counter, key_a, key_b);
    key_a += kWeylA;
    key_b += kWeylB;
  }
  return counter;
}

PhiloxBlocks philox_blocks(std::uint64_t key, const PhiloxBlock& counter) {
  std::uint32_t key_a = low(key);
  std::uint32_t key_b = high(key);
  PhiloxBlocks blocks;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = counter;
    blocks[i][0] += i;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (PhiloxBlock& block : blocks) block = mixed(block, key_a, key_b);
    key_a += kWeylA;
    key_b += kWeylB;
  }
  return blocks;
}

// The counter words are the draw number (16 bits) and operation (16 bits), the epoch, and the
// position (64 bits).
CounterRng::CounterRng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t position,
                       std::uint16_t operation)
    : key_(seed), counter_{std::uint32_t{operation} << 16, epoch, low(position), high(position)} {}

std::uint32_t CounterRng::next_u32() {
  if (used_ == 4) {
    block_ = philox(key_, counter_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++] ^ mask_;
}

std::uint64_t CounterRng::next_u64() {
  const std::uint64_t upper = next_u32();
  return (upper << 32) | next_u32();
}

float CounterRng::uniform() { return static_cast<float>(next_u32() >> 8) * 0x1.0p-24F; }

std::uint64_t CounterRng::below(std::uint64_t bound) {
  const std::uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const auto product = static_cast<Wide>(next_u64()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold)
      return static_cast<std::uint64_t>(product >> 64);
  }
}

bool CounterRng::coin(double probability) { return static_cast<double>(uniform()) < probability; }

double portable_exp(double x) {
  x = std::clamp(x, -746.0, 710.0);  // the result is 0 or infinity beyond these
  const double twos = std::nearbyint(x / (kLn2High + kLn2Low));
  const double rest = (x - twos * kLn2High) - twos * kLn2Low;
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + sum * rest / n;
  return std::ldexp(sum, static_cast<int>(twos));
}

double portable_log(double x) {
  int twos = 0;
  double fraction = std::frexp(x, &twos);  // in [0.5, 1)
  if (fraction < 0.70710678) {
    fraction *= 2;
    --twos;
  }
  const double s = (fraction - 1) / (fraction + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return twos * kLn2High + (twos * kLn2Low + 2 * s * sum);
}

SinCos sin_cos_degrees(double degrees) {
  const double turned = std::fmod(degrees, 360.0);
  const double quarters = std::nearbyint(turned / 90);
  const SinCos near = series((turned - 90 * quarters) * kRadians);
  switch (static_cast<int>(quarters) & 3) {
    case 0: return near;
    case 1: return {near.cos, -near.sin};
    case 2: return {-near.sin, -near.cos};
    default: return {-near.cos, near.sin};
  }
}

}  // namespace trainctl
