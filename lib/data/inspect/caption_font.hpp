#pragma once

#include <array>
#include <cstdint>

namespace trainctl::data {

constexpr std::int64_t kLetterWidth = 3;
constexpr std::int64_t kLetterHeight = 5;

/// Five rows of three dots each, the left one the highest bit. Small letters look like capitals;
/// what the font has not is a question mark.
std::array<std::uint8_t, kLetterHeight> letter_dots(char letter);

}  // namespace trainctl::data
