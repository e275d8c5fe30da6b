#include "base/random.hpp"

#include "support/catch.hpp"

#include <set>

using namespace trainctl;

// These are test vectors of Random123 (kat_vectors: philox4x32, 10 rounds).
TEST_CASE("philox: the values equal the published test vectors") {
  CHECK(philox(0, {0, 0, 0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox_blocks: the blocks equal those of consecutive counters") {
  const PhiloxBlock counter{0xfffffffe, 1, 2, 3};
  const PhiloxBlocks blocks = philox_blocks(42, counter);
  for (std::uint32_t i = 0; i < blocks.size(); ++i)
    CHECK(blocks[i] == philox(42, {counter[0] + i, 1, 2, 3}));
}

TEST_CASE("CounterRng: a draw depends only on seed, epoch, position and operation") {
  const auto first = [](std::uint64_t seed, std::uint32_t epoch, std::uint64_t position,
                        std::uint16_t operation) {
    return CounterRng(seed, epoch, position, operation).next_u64();
  };
  CHECK(first(1, 2, 3, 4) == first(1, 2, 3, 4));
  const std::set<std::uint64_t> all{first(1, 2, 3, 4), first(9, 2, 3, 4), first(1, 9, 3, 4),
                                    first(1, 2, 9, 4), first(1, 2, 3, 9)};
  CHECK(all.size() == 5);
}

TEST_CASE("CounterRng: invert() shows the other side of every coin, and twice the same side") {
  CounterRng plain(7, 0, 0, 0);
  CounterRng inverted(7, 0, 0, 0);
  CounterRng restored(7, 0, 0, 0);
  inverted.invert();
  restored.invert();
  restored.invert();
  for (int i = 0; i < 1000; ++i) {
    const bool side = plain.coin(0.5);
    REQUIRE(inverted.coin(0.5) != side);
    REQUIRE(restored.coin(0.5) == side);
  }
}

TEST_CASE("CounterRng: below() and uniform() stay within their range, and below() is uniform") {
  CounterRng rng(7, 0, 0, 0);
  std::array<int, 3> counts{};
  for (int i = 0; i < 30000; ++i) ++counts.at(rng.below(3));
  for (const int count : counts) CHECK(std::abs(count - 10000) < 400);
  for (int i = 0; i < 1000; ++i) {
    const float u = rng.uniform();
    REQUIRE(u >= 0.0F);
    REQUIRE(u < 1.0F);
  }
}
