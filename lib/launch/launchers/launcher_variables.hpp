#pragma once

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/launchers/launcher_environment.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::launch {

inline constexpr int kMostTasks = 1 << 16;

/// Of a launcher, read strictly: an empty one counts as none. Throws Error(config) naming the
/// variable.
class Variables {
 public:
  struct Range {
    std::int64_t least;
    std::int64_t most;
  };

  /// `getenv` outlives it.
  explicit Variables(const GetEnv& getenv) : getenv_(getenv) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = getenv_(name);
    return value == nullptr ? "" : value;
  }
  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }

  [[nodiscard]] std::optional<std::int64_t> number(const char* name, Range range) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    std::int64_t found = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), found);
    const bool fits = error == std::errc() && end == value.data() + value.size() &&
                      found >= range.least && found <= range.most;
    ENSURE(config, fits, "environment variable {} is '{}', expected a whole number from {} to {}",
           name, printable(value), range.least, range.most);
    return found;
  }
  [[nodiscard]] std::optional<int> count(const char* name, int least) const {
    const auto found = number(name, {least, kMostTasks});
    return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
  }
  /// Where `launcher` sets it always.
  [[nodiscard]] int required(const char* name, int least, Launcher launcher) const {
    const auto found = count(name, least);
    ENSURE(config, found.has_value(), "environment variable {} is not set, which {} sets", name,
           name_of(launcher));
    return *found;
  }

 private:
  const GetEnv& getenv_;
};

}  // namespace trainctl::launch
