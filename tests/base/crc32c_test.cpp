#include "base/hash.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <vector>

using namespace trainctl;

namespace {

/// Computes the CRC bit by bit from its polynomial.
std::uint32_t reference(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~state;
}

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw() & 0xff);
  return bytes;
}

}  // namespace

TEST_CASE("crc32c: the values equal those of RFC 3720") {
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(std::as_bytes(std::span(std::string_view("123456789")))) == 0xe3069283);
  std::vector<unsigned char> bytes(32, 0);
  CHECK(crc32c(std::as_bytes(std::span(bytes))) == 0x8a9136aa);
  std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0xff));
  CHECK(crc32c(std::as_bytes(std::span(bytes))) == 0x62a8ab43);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  CHECK(crc32c(std::as_bytes(std::span(bytes))) == 0x46dd794e);
  std::reverse(bytes.begin(), bytes.end());
  CHECK(crc32c(std::as_bytes(std::span(bytes))) == 0x113fdb5c);
}

TEST_CASE("crc32c: any length and alignment equals the bit-by-bit computation") {
  const std::vector<std::byte> bytes = random_bytes(320, 1);
  int wrong = 0;
  for (std::size_t begin = 0; begin < 16; ++begin) {
    for (std::size_t size = 0; size <= 300; ++size) {
      const auto part = std::span(bytes).subspan(begin, size);
      wrong += crc32c(part) == reference(part) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  const std::vector<std::byte> large = random_bytes(100'003, 2);
  CHECK(crc32c(large) == reference(large));
}

TEST_CASE("crc32c: chained parts equal the whole for any split") {
  const std::vector<std::byte> bytes = random_bytes(1000, 3);
  const std::span<const std::byte> all(bytes);
  const std::uint32_t whole = crc32c(all);
  int wrong = 0;
  for (std::size_t cut = 0; cut <= all.size(); ++cut)
    wrong += crc32c(all.subspan(cut), crc32c(all.first(cut))) == whole ? 0 : 1;
  CHECK(wrong == 0);
  std::uint32_t single = 0;
  for (std::size_t i = 0; i < all.size(); ++i) single = crc32c(all.subspan(i, 1), single);
  CHECK(single == whole);
}
