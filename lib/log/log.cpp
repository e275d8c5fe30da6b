#include "log/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace trainctl::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::quiet: return spdlog::level::err;
    case Level::normal: return spdlog::level::info;
    case Level::verbose: return spdlog::level::debug;
    case Level::debug: return spdlog::level::trace;
  }
  return spdlog::level::info;
}

}  // namespace

spdlog::logger& get() {
  static const auto logger = [] {
    auto made = spdlog::stderr_color_mt("trainctl");
    made->set_pattern("[%H:%M:%S.%e] %^%l%$ %v");
    return made;
  }();
  return *logger;
}

void set_up(Level level) { get().set_level(level_of(level)); }

}  // namespace trainctl::log
