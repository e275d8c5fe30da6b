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
/// Writing to such a stdout or stderr still fails. Ignores SIGXFSZ: a write beyond the limit of
/// file sizes fails with EFBIG.
void prepare_standard_streams();

/// What finish_output() does when stdout could not be written.
enum class LostOutput { is_error, is_tolerated };

/// From here on a closed pipe does not end the process: text for a stream that cannot be written is
/// discarded. `is_tolerated` is for verbs whose results are in files.
void keep_running_without_output(LostOutput lost_output);

enum class Flush { later, now };

/// Writes `text` unless an earlier write to `stream` (stdout or stderr) has failed.
void write_text(std::FILE* stream, std::string_view text, Flush flush);

/// Returns whether a write to `stream` has failed, so that what is written to it goes nowhere.
bool is_lost(std::FILE* stream);

/// Returns whether write_text() was called with text for `stream`.
bool has_output(std::FILE* stream);

/// Flushes stdout. Throws Error(resource) with the cause of the first write that failed, unless
/// that is tolerated.
void finish_output();

/// Returns what `stream` can show: the width of the terminal (COLUMNS comes first; 120 if it is not
/// a terminal), colors as color_for() says, Unicode if the locale is UTF-8.
report::Style style_for(const Context& context, std::FILE* stream);

/// --progress with auto resolved for stderr; none under --quiet.
report::ProgressMode progress_for(const Context& context);

/// Writes to `stream` and flushes at once, so that rows appear as epochs end.
report::Write writer_for(std::FILE* stream);

/// Prints lines to stderr where progress is shown.
study::PrintLine progress_printer(const Context& context);

/// Results on stdout, messages and the progress bar on stderr, as --quiet, --json, --color and
/// --progress ask. `metrics` are the columns of the table.
report::ConsoleOptions console_options(const Context& context, std::vector<std::string> metrics);

/// Prints why a run failed: its failure in words on stderr, or with --json, whose document has it,
/// only what exit code 11 needs there.
void print_failure(const Context& context, const report::RunRecord& record,
                   const report::Ending& ending);

/// The logger says as much as --quiet and -v ask.
void set_up_log(const Context& context);

/// Prints "warning: 3 samples cannot be read, WHAT:" with the first names and reasons on stderr;
/// nothing where none is damaged, or under --quiet or --json.
void print_skipped(const Context& context, const std::vector<data::SkippedSample>& skipped,
                   const std::string& what);
/// The same for a document: their number, and the names and reasons of the first ones.
Json skipped_json(const std::vector<data::SkippedSample>& skipped);

}  // namespace trainctl::app
