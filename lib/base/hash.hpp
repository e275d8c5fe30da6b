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

/// SHA-256 (FIPS 180-4) by OpenSSL, for signatures and for files that are named by it; Hasher is
/// for everything else.
Sha256 sha256(std::string_view text);

/// Returns the SHA-256 of a text that comes in parts.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();

  void add(std::string_view text);
  /// Returns the digest of all that was added; call it once only.
  [[nodiscard]] Sha256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// HMAC-SHA256 (RFC 2104).
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// 64 lower-case hex digits.
std::string to_hex(const Sha256& digest);
/// The digest as the key of a further hmac_sha256().
std::string_view as_text(const Sha256& digest);

}  // namespace trainctl
