#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainctl {

/// CRC-32C (Castagnoli, as iSCSI has it): 0xe3069283 of "123456789". `before` is the value of what
/// comes in front: crc32c(b, crc32c(a)) is that of a and b in one.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace trainctl
