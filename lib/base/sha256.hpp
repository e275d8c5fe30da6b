#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trainctl {

using Sha256 = std::array<std::uint8_t, 32>;

/// SHA-256 (FIPS 180-4), for signatures; Hasher is for everything else.
Sha256 sha256(std::string_view text);
/// HMAC-SHA256 (RFC 2104).
Sha256 hmac_sha256(std::string_view key, std::string_view text);

/// 64 lower-case hex digits.
std::string to_hex(const Sha256& digest);
/// The digest as the key of a further hmac_sha256().
std::string_view as_text(const Sha256& digest);

}  // namespace trainctl
