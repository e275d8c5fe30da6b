#pragma once

#include <spdlog/spdlog.h>

#include <cstdio>
#include <string_view>

namespace trainctl::log {

enum class Level { quiet, normal, verbose, debug };
enum class Colors { off, on };

/// Logs go to stderr, results to stdout. Called once, by main or the worker.
void set_up(Level level, Colors colors);

/// The one logger: log::get().info("...", ...).
spdlog::logger& get();

enum class Flush { later, now };

/// Writes `text` completely to `stream` (stdout or stderr), also where the descriptor is
/// non-blocking. After a failure the descriptor is /dev/null, and text is discarded.
void write_text(std::FILE* stream, std::string_view text, Flush flush);

/// Writes lines of the log to stderr in the same way, but after a failure the next ones are tried
/// again: the disk of a log file may have space later.
void write_log(std::string_view lines);

/// Returns errno of the first write to `stream` that failed; 0 if none has.
int lost_cause(std::FILE* stream);

}  // namespace trainctl::log
