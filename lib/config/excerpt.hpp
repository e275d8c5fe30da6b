#pragma once

#include "config/diagnostics.hpp"

#include <string>

namespace trainctl::config {

/// "mnist.yaml:14:3", the column in characters; empty for a default.
std::string place(const Position& position);

/// The source line with its number, and below it the caret with `hint` beside it. Tabs become
/// spaces, control characters are escaped, long lines are cut around the caret. Empty where there
/// is neither a line nor a hint.
std::string excerpt(const Position& position, const std::string& hint, Color color);

}  // namespace trainctl::config
