#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainctl {

/// A number as text from which the same bits come back, whatever the locale: hexadecimal "1.8p+1",
/// "-inf", "nan:7ff8000000000000".
std::string exact_text(double value);

/// Nothing where the text is no such number.
std::optional<double> exact_double(std::string_view text);

}  // namespace trainctl
