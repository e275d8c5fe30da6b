#pragma once

#include "cli/context.hpp"
#include "data/loader/skipped_samples.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/format.hpp"
#include "report/text/progress_bar.hpp"
#include "study/run/run.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::app {

/// Opens standard descriptors that the caller has closed, so that no other file gets their numbers.
/// Writing to such a stdout or stderr still fails. Ignores SIGXFSZ, so that a write beyond the file
/// size limit fails with EFBIG.
void prepare_standard_streams();

/// How finish_output() treats a stdout that could not be written.
enum class LostOutput { is_error, is_tolerated };

/// Ignores SIGPIPE from now on: text for a stream that cannot be written is discarded.
/// `is_tolerated` is for commands whose results are in files.
void keep_running_without_output(LostOutput lost_output);

enum class Flush { later, now };

/// Writes `text` unless an earlier write to `stream` (stdout or stderr) has failed.
void write_text(std::FILE* stream, std::string_view text, Flush flush);

/// Returns whether a write to `stream` has failed, so that further output is discarded.
bool is_lost(std::FILE* stream);

/// Returns whether write_text() was called with text for `stream`.
bool has_output(std::FILE* stream);

/// Flushes stdout. Throws Error(resource) with the cause of the first failed write, unless
/// tolerated.
void finish_output();

/// Returns the capabilities of `stream`: the terminal width (COLUMNS has priority; 120 for other
/// outputs), colors as in color_for(), and Unicode if the locale is UTF-8.
report::Style style_for(const Context& context, std::FILE* stream);

/// Returns --progress with `auto` resolved for stderr; none with --quiet.
report::ProgressMode progress_for(const Context& context);

/// Returns a function that writes to `stream` and flushes, so that rows appear as epochs end.
report::Write writer_for(std::FILE* stream);

/// Returns a function that prints lines to stderr if progress is shown.
study::PrintLine progress_printer(const Context& context);

/// Returns options with results on stdout, and messages and the progress bar on stderr, according
/// to --quiet, --json, --color and --progress. `metrics` are the columns of the table.
report::ConsoleOptions console_options(const Context& context, std::vector<std::string> metrics);

/// Prints why a run failed to stderr. With --json, whose document has the reason, only exit code 11
/// is reported there.
void print_failure(const Context& context, const report::RunRecord& record,
                   const report::RunResult& ending);

/// Sets the log level according to --quiet and -v.
void set_up_log(const Context& context);

/// Prints "warning: 3 samples cannot be read, WHAT:" with the first names and reasons to stderr;
/// nothing without skipped samples, or with --quiet or --json.
void print_skipped(const Context& context, const std::vector<data::SkippedSample>& skipped,
                   const std::string& what);
/// Returns the same for a document: the count, and the first names and reasons.
Json skipped_json(const std::vector<data::SkippedSample>& skipped);

}  // namespace trainctl::app
