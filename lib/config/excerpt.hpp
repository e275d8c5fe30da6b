#pragma once

#include "config/diagnostics.hpp"

#include <string>

namespace trainctl::config {

/// The `length` of a position whose line is not shown, because it holds a secret.
constexpr int kHiddenLine = -1;

/// "mnist.yaml:14:3", the column in characters; empty for a default.
std::string place(const Position& position);

/// The source line with its number, and below it the caret with `hint` beside it; of a hidden line
/// the hint alone. Tabs become
/// spaces, control characters are escaped, long lines are cut around the caret. Empty where there
/// is neither a line nor a hint.
std::string excerpt(const Position& position, const std::string& hint, Color color);

}  // namespace trainctl::config
