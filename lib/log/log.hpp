#pragma once

#include <spdlog/spdlog.h>

namespace trainctl::log {

enum class Level { quiet, normal, verbose, debug };
enum class Colours { off, on };

/// Logs go to stderr, results to stdout. Called once, by main or the worker.
void set_up(Level level, Colours colours);

/// The one logger: log::get().info("...", ...).
spdlog::logger& get();

}  // namespace trainctl::log
