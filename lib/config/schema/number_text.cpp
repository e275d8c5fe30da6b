#include "config/schema/describe.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace trainctl::config {

std::string number_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 32> buffer{};
  char* const end = buffer.data() + buffer.size();
  // 1000000, not 1e+06; 0.0001, not 1e-04.
  const bool is_handy = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e9);
  const auto result = is_handy ? std::to_chars(buffer.data(), end, value, std::chars_format::fixed)
                               : std::to_chars(buffer.data(), end, value);
  return {buffer.data(), result.ptr};
}

}  // namespace trainctl::config
