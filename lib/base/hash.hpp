#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainctl {

/// Streaming XXH3-64: digests of batches, files and configs. Not for security.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::uint64_t value);
  [[nodiscard]] std::uint64_t value() const;
  /// 16 lower-case hex digits.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 of one piece, without a Hasher's allocation.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

std::string to_hex(std::uint64_t value);

/// CRC-32C (Castagnoli, as iSCSI has it): 0xe3069283 of "123456789". `before` is the value of what
/// comes in front: crc32c(b, crc32c(a)) is that of a and b in one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

using Sha256 = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4), for signatures and for files that are named by it; Hasher is for
/// everything else.
Sha256 sha256(std::string_view text);

/// The same of a text that comes in parts.
class Sha256Stream {
 public:
  void add(std::string_view text);
  /// The digest of all that was added; once only.
  [[nodiscard]] Sha256 finish();

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string rest_;  // less than a block
  std::uint64_t size_ = 0;
};

/// HMAC-SHA256 (RFC 2104).
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// 64 lower-case hex digits.
std::string to_hex(const Sha256& digest);
/// The digest as the key of a further hmac_sha256().
std::string_view as_text(const Sha256& digest);

}  // namespace trainctl
