#pragma once

#include "base/error.hpp"
#include "base/json.hpp"
#include "config/diagnostics.hpp"
#include "data/loader/skipped_samples.hpp"
#include "log/log.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/format.hpp"
#include "report/text/progress_bar.hpp"
#include "study/run/run.hpp"

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

enum class ColorMode { automatic, always, never };

/// The state that all commands share: the global flags, and the problems found in a config. One per
/// process, owned by main().
struct Context {
  bool json = false;   // print one JSON document on stdout
  bool quiet = false;  // no progress and notes; errors are still printed
  int verbosity = 0;   // number of -v
  ColorMode color = ColorMode::automatic;
  report::ProgressMode progress = report::ProgressMode::automatic;
  std::vector<std::string> argv;
  const CLI::App* program = nullptr;
  std::string token_digits;  // from TRAINCTL_RDZV_TOKEN, which is removed from the environment
  config::Diagnostics
      diagnostics;  // problems of the config a command reads; listed in the JSON of an error
  std::function<int()> action;  // action of the chosen command; returns the exit code
  /// Callbacks that complete the parsed arguments of a command before its action.
  std::map<const CLI::App*, std::function<void()>> complete_arguments;
};

/// Throws Error(resource) if the working directory was deleted, since libraries that a child
/// process loads would end it without an error message.
void check_working_directory();

/// Returns whether to color output to `stream`: --color, or else NO_COLOR and whether it is a tty.
config::Color color_for(const Context& context, std::FILE* stream);

/// Writes text unchanged. main() reports a stdout that could not be written.
void put(std::FILE* stream, const std::string& text);
/// Writes text and a newline to stdout.
void print(const std::string& text);
/// Prints the document of a command with --json. Returns the exit code 0.
int print_json(const Json& document);
/// Prints the warnings of a valid config to stderr; nothing with --quiet or --json.
void print_warnings(const Context& context);
/// Returns an error without a position as an element of problems_json().
Json problem_json(const std::optional<std::string>& file, const std::string& message);
/// Returns the config problems as a JSON list: file, line, column, severity, message, hint.
Json problems_json(const config::Diagnostics& diagnostics);
/// Prints "error: MESSAGE" to stderr.
void print_error(const Context& context, const std::string& message);
/// Prints the error (to stderr, or the JSON document trainctl.error/2 to stdout; errors with exit
/// code 11 always go to stderr too) and returns its exit code.
int report_error(const Context& context, const Error& error);

/// Opens standard descriptors that the caller has closed, so that no other file gets their numbers.
/// Writing to such a stdout or stderr still fails. Ignores SIGXFSZ, so that a write beyond the file
/// size limit fails with EFBIG.
void prepare_standard_streams();

/// How finish_output() treats a stdout that could not be written.
enum class LostOutput { is_error, is_tolerated };

/// Ignores SIGPIPE from now on: text for a stream that cannot be written is discarded.
/// `is_tolerated` is for commands whose results are in files.
void keep_running_without_output(LostOutput lost_output);

using log::Flush;

/// Writes `text` unless an earlier write to `stream` (stdout or stderr) has failed.
void write_output(std::FILE* stream, std::string_view text, Flush flush);

/// Returns whether a write to `stream` has failed, so that further output is discarded.
bool is_lost(std::FILE* stream);

/// Returns whether write_output() was called with text for `stream`.
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
