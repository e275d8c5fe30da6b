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

using StderrSink = spdlog::sinks::stderr_color_sink_mt;

const std::shared_ptr<StderrSink>& sink() {
  static const auto made = std::make_shared<StderrSink>(spdlog::color_mode::never);
  return made;
}

}  // namespace

spdlog::logger& get() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("trainctl", sink());
    made->set_pattern("[%H:%M:%S.%e] %^%l%$ %v");
    return made;
  }();
  return *logger;
}

void set_up(Level level, Colours colours) {
  sink()->set_color_mode(colours == Colours::on ? spdlog::color_mode::always
                                                : spdlog::color_mode::never);
  get().set_level(level_of(level));
}

}  // namespace trainctl::log
