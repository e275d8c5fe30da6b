#pragma once

#include <cstdlib>
#include <string>

namespace trainctl {

/// Returns the value of an environment variable; empty if it is not set.
inline std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace trainctl
