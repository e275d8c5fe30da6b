#pragma once

#include <nlohmann/json.hpp>

namespace trainctl {

/// Keys keep the order in which they were written, so documents diff well. See
/// docs/adr/0007-json-in-base.md.
using Json = nlohmann::ordered_json;

/// One line. Non-finite numbers become null, invalid UTF-8 is replaced: our output is always valid
/// JSON.
inline std::string to_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Indented, for people.
inline std::string to_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainctl
