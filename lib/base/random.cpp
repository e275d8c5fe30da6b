#include "base/random.hpp"

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

// Counter words: draw number (16 bits) and operation (16 bits), epoch, position (64 bits).
CounterRng::CounterRng(std::uint64_t seed, std::uint32_t epoch, std::uint64_t position,
                       std::uint16_t operation)
    : key_(seed), counter_{std::uint32_t{operation} << 16, epoch, low(position), high(position)} {}

std::uint32_t CounterRng::next_u32() {
  if (used_ == 4) {
    block_ = philox(key_, counter_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
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

}  // namespace trainctl
