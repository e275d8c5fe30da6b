#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainctl {

/// Computes XXH3-64 of a stream: digests of batches, files and configs. Not for security.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  /// Adds the 8 bytes of the value in little-endian order.
  void add(std::uint64_t value);
  [[nodiscard]] std::uint64_t value() const;
  /// Returns the value as 16 lower-case hex digits.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the XXH3-64 of one buffer, without the allocation that a Hasher makes.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// Returns the value as 16 lower-case hex digits.
std::string to_hex(std::uint64_t value);

/// Returns the CRC-32C (Castagnoli, as in iSCSI): 0xe3069283 for "123456789". `before` is the CRC
/// of the preceding bytes: crc32c(b, crc32c(a)) equals the CRC of a and b concatenated.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

using Sha256 = std::array<std::uint8_t, 32>;

/// Returns the SHA-256 (FIPS 180-4), computed by OpenSSL. It is used for signatures and for files
/// that are named by their digest; everything else uses Hasher.
Sha256 sha256(std::string_view text);

/// Computes the SHA-256 of a text that arrives in parts.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();

  void add(std::string_view text);
  /// Returns the digest of everything that was added. May be called once only.
  [[nodiscard]] Sha256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns HMAC-SHA256 (RFC 2104).
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// Returns 64 lower-case hex digits.
std::string to_hex(const Sha256& digest);
/// Returns the bytes of the digest, to use them as the key of another hmac_sha256().
std::string_view as_text(const Sha256& digest);

}  // namespace trainctl
