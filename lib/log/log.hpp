#pragma once

#include <spdlog/spdlog.h>

#include <cstdio>
#include <string_view>

namespace trainctl::log {

enum class Level { quiet, normal, verbose, debug };
enum class Colors { off, on };

/// Sets up logging to stderr; results go to stdout. Called once, by main() or the worker.
void set_up(Level level, Colors colors);

/// Returns the logger: log::get().info("...", ...).
spdlog::logger& get();

enum class Flush { later, now };

/// Writes all of `text` to `stream` (stdout or stderr), even if the descriptor is non-blocking.
/// After a failure the descriptor is redirected to /dev/null and text is discarded.
void write_text(std::FILE* stream, std::string_view text, Flush flush);

/// Writes log lines to stderr in the same way, but continues to try after a failure, since the disk
/// of a log file may have space again.
void write_log(std::string_view lines);

/// Returns the errno of the first failed write to `stream`; 0 without a failure.
int lost_cause(std::FILE* stream);

}  // namespace trainctl::log

// log.cpp instantiates this once. Each source that logs would compile how numbers are formatted.
extern template void fmt::detail::vformat_to<char>(buffer<char>&, string_view,
                                                   basic_format_args<buffer_context<char>>,
                                                   locale_ref);
