#include "cli/output.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/secret.hpp"
#include "report/text/run_summary.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace trainctl::app {
namespace {

constexpr const char* kDeletedDirectory = "the working directory has been deleted";

std::string source_location_text(const std::source_location& where) {
  return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(),
                     where.line());
}

/// Adds that the working directory was deleted, the cause of most failures there. Its hint replaces
/// the hint of the message.
std::string with_folder_hint(const std::string& message) {
  if (!working_directory_is_deleted()) return message;
  std::string text(without_hint(message));
  if (text.find(kDeletedDirectory) == std::string::npos)
    text += fmt::format("; {}", kDeletedDirectory);
  return text + "\nhint: change to a folder that exists, as in: cd ~";
}

struct StreamState {
  const char* name;
  std::FILE* stream;
  bool is_reported = false;
  std::atomic<bool> has_text = false;
};

StreamState stdout_state{"stdout", stdout};
StreamState stderr_state{"stderr", stderr};
bool tolerates_lost_output = false;

StreamState& state_of(std::FILE* stream) { return stream == stdout ? stdout_state : stderr_state; }

std::string lost_output_text(const StreamState& state) {
  return fmt::format("cannot write to {}: {}", state.name,
                     std::strerror(log::lost_cause(state.stream)));
}

constexpr int kWidthOfFiles = 120;
constexpr int kNarrowest = 20;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int width_of(std::FILE* stream) {
  const int columns = std::atoi(std::string(environment("COLUMNS")).c_str());
  if (columns >= kNarrowest) return columns;
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowest)
    return size.ws_col;
  return kWidthOfFiles;
}

// POSIX determines the character locale in this order.
report::Glyphs glyphs_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = environment(name);
    if (locale.empty()) continue;
    const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
    return utf8 ? report::Glyphs::unicode : report::Glyphs::ascii;
  }
  return report::Glyphs::ascii;
}

/// Returns the message for a lost stream, once each: "cannot write to stdout: Broken pipe; ...".
std::optional<std::string> take_lost_output_notice() {
  for (StreamState* state : {&stdout_state, &stderr_state}) {
    if (!is_lost(state->stream) || state->is_reported) continue;
    state->is_reported = true;
    return lost_output_text(*state) + ": the run continues without this output";
  }
  return std::nullopt;
}

void discard(std::string_view) {}

constexpr std::size_t kMostNamed = 10;

}  // namespace

void check_working_directory() {
  ENSURE(resource, !working_directory_is_deleted(), "cannot start: {}", kDeletedDirectory);
}

config::Color color_for(const Context& context, std::FILE* stream) {
  if (context.color == ColorMode::always) return config::Color::on;
  if (context.color == ColorMode::never) return config::Color::off;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return config::Color::off;
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return config::Color::off;
  return ::isatty(::fileno(stream)) != 0 ? config::Color::on : config::Color::off;
}

void put(std::FILE* stream, const std::string& text) { write_output(stream, text, Flush::later); }

void print(const std::string& text) { put(stdout, text + "\n"); }

int print_json(const Json& document) {
  print(to_pretty(document));
  return 0;
}

void print_warnings(const Context& context) {
  if (context.quiet || context.json) return;
  put(stderr, context.diagnostics.render(color_for(context, stderr)));
}

Json problem_json(const std::optional<std::string>& file, const std::string& message) {
  return {{"file", file ? Json(bounded(*file)) : Json(nullptr)},
          {"line", 0},
          {"column", 0},
          {"severity", "error"},
          {"message", message},
          {"hint", ""}};
}

Json problems_json(const config::Diagnostics& diagnostics) {
  Json problems = Json::array();
  for (const config::Diagnostic& one : diagnostics.sorted()) {
    const config::Position& at = one.position;
    const auto file =
        at.source ? std::optional(config::without_secrets(at.source->name)) : std::nullopt;
    problems.push_back(problem_json(file, one.message));
    problems.back()["line"] = at.line;
    problems.back()["column"] = at.column;
    problems.back()["hint"] = one.hint;
    if (one.severity == config::Severity::warning) problems.back()["severity"] = "warning";
  }
  if (diagnostics.truncated())
    problems.push_back(problem_json({}, "the check stopped after these problems: fix these first"));
  return problems;
}

void print_error(const Context& context, const std::string& message) {
  const bool colored = color_for(context, stderr) == config::Color::on;
  put(stderr, fmt::format("{}error:{} {}\n", colored ? "\x1b[1;31m" : "", colored ? "\x1b[0m" : "",
                          with_folder_hint(bounded(message))));
}

int report_error(const Context& context, const Error& error) {
  std::string message = error.what();
  if (error.kind() == ErrorKind::unexpected) {
    message += fmt::format(" ({}; this is a bug in trainctl: please report it)",
                           source_location_text(error.where()));
  }
  const bool is_config = !context.json && context.diagnostics.error_count() > 0;
  if (context.json) {
    const std::string full = with_folder_hint(message);
    print_json({{"schema", "trainctl.error/2"},
                {"exit_code", error.exit_code()},
                {"message", without_hint(full)},
                {"hint", hint_of(full)},
                {"errors", problems_json(context.diagnostics)}});
  } else if (is_config) {
    put(stderr, context.diagnostics.render(color_for(context, stderr)));
  }
  write_output(stdout, "", Flush::now);
  const bool is_printed =
      (context.json && !is_lost(stdout)) || (is_config && !working_directory_is_deleted());
  // For exit code 11 the cause is always on stderr, since stdout may be what failed.
  if (!is_printed || error.kind() == ErrorKind::resource) print_error(context, message);
  return error.exit_code();
}

void prepare_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() returns the lowest free descriptor.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void keep_running_without_output(LostOutput lost_output) {
  std::signal(SIGPIPE, SIG_IGN);
  tolerates_lost_output = lost_output == LostOutput::is_tolerated;
}

void write_output(std::FILE* stream, std::string_view text, Flush flush) {
  if (!text.empty()) state_of(stream).has_text = true;
  log::write_text(stream, text, flush);
}

bool is_lost(std::FILE* stream) { return log::lost_cause(stream) != 0; }

bool has_output(std::FILE* stream) { return state_of(stream).has_text; }

void finish_output() {
  write_output(stdout, "", Flush::now);
  if (!is_lost(stdout)) return;
  if (!tolerates_lost_output) throw Error(ErrorKind::resource, lost_output_text(stdout_state));
  if (!stdout_state.is_reported) log::get().warn("{}", lost_output_text(stdout_state));
}

report::Style style_for(const Context& context, std::FILE* stream) {
  const bool colored = color_for(context, stream) == config::Color::on;
  return {.glyphs = glyphs_of_locale(),
          .colors = colored ? report::Colors::on : report::Colors::off,
          .width = width_of(stream)};
}

report::ProgressMode progress_for(const Context& context) {
  if (context.quiet) return report::ProgressMode::none;
  const bool on_terminal = ::isatty(STDERR_FILENO) != 0;
  return report::resolve(context.progress,
                         on_terminal ? report::Device::terminal : report::Device::file);
}

report::Write writer_for(std::FILE* stream) {
  return [stream](std::string_view text) { write_output(stream, text, Flush::now); };
}

study::PrintLine progress_printer(const Context& context) {
  if (progress_for(context) == report::ProgressMode::none) return [](const std::string&) {};
  return [](const std::string& line) { write_output(stderr, line + "\n", Flush::now); };
}

report::ConsoleOptions console_options(const Context& context, std::vector<std::string> metrics) {
  report::ConsoleOptions options;
  options.metrics = std::move(metrics);
  options.results = context.json || context.quiet ? discard : writer_for(stdout);
  options.messages = context.quiet ? discard : writer_for(stderr);
  options.results_style = style_for(context, stdout);
  options.messages_style = style_for(context, stderr);
  options.progress = progress_for(context);
  options.take_notice = take_lost_output_notice;
  return options;
}

void print_failure(const Context& context, const report::RunRecord& record,
                   const report::RunResult& ending) {
  if (!context.json) {
    writer_for(stderr)(report::failure_text(record, ending, style_for(context, stderr)));
  } else if (ending.exit_code == static_cast<int>(ErrorKind::resource)) {
    print_error(context, printable_lines(ending.message));
  }
}

void set_up_log(const Context& context) {
  log::Level level = log::Level::normal;
  if (context.verbosity == 1) level = log::Level::verbose;
  if (context.verbosity > 1) level = log::Level::debug;
  if (context.quiet) level = log::Level::quiet;
  const bool colored = color_for(context, stderr) == config::Color::on;
  log::set_up(level, colored ? log::Colors::on : log::Colors::off);
}

void print_skipped(const Context& context, const std::vector<data::SkippedSample>& skipped,
                   const std::string& what) {
  if (skipped.empty() || context.quiet || context.json) return;
  std::string text = fmt::format("warning: {} unreadable sample{} {}:\n", skipped.size(),
                                 plural(skipped.size()), what);
  for (std::size_t i = 0; i < std::min(skipped.size(), kMostNamed); ++i)
    text += fmt::format("  {}: {}\n", printable(skipped[i].name), printable(skipped[i].reason));
  if (skipped.size() > kMostNamed)
    text += fmt::format("  and {} more\n", skipped.size() - kMostNamed);
  put(stderr, text);
}

Json skipped_json(const std::vector<data::SkippedSample>& skipped) {
  Json first = Json::array();
  for (std::size_t i = 0; i < std::min(skipped.size(), kMostNamed); ++i)
    first.push_back({{"name", skipped[i].name}, {"reason", skipped[i].reason}});
  return {{"count", skipped.size()}, {"first", first}};
}

}  // namespace trainctl::app
