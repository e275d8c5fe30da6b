#pragma once

#include <nlohmann/json.hpp>

namespace trainctl {

/// JSON documents keep the order in which keys were added, so that they diff well. See
/// docs/adr/0007-json-in-base.md.
using Json = nlohmann::ordered_json;

/// Returns the value on one line. Non-finite numbers become null and invalid UTF-8 is replaced, so
/// that the output is always valid JSON.
inline std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the value with an indentation of two spaces.
inline std::string to_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainctl
