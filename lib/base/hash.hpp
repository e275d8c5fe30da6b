#pragma once

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

}  // namespace trainctl
