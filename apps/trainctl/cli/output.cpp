#include "cli/output.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"
#include "report/text/run_summary.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace trainctl::app {
namespace {

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

}  // namespace

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

void write_text(std::FILE* stream, std::string_view text, Flush flush) {
  if (!text.empty()) state_of(stream).has_text = true;
  log::write_text(stream, text, flush == Flush::now ? log::Flush::now : log::Flush::later);
}

bool is_lost(std::FILE* stream) { return log::lost_cause(stream) != 0; }

bool has_output(std::FILE* stream) { return state_of(stream).has_text; }

void finish_output() {
  write_text(stdout, "", Flush::now);
  if (!is_lost(stdout)) return;
  if (!tolerates_lost_output) throw Error(ErrorKind::resource, lost_output_text(stdout_state));
  if (!stdout_state.is_reported) log::get().warn("{}", lost_output_text(stdout_state));
}

namespace {

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

}  // namespace

report::Style style_for(const Context& context, std::FILE* stream) {
  const bool colored = color_for(context, stream) == config::Color::on;
  return {.glyphs = glyphs_of_locale(),
          .colors = colored ? report::Colors::on : report::Colors::off,
          .width = width_of(stream)};
}

report::ProgressMode progress_for(const Context& context) {
  using report::ProgressMode;
  if (context.quiet) return ProgressMode::none;
  const report::Device device =
      ::isatty(STDERR_FILENO) != 0 ? report::Device::terminal : report::Device::file;
  switch (context.progress) {
    case app::ProgressMode::tty: return ProgressMode::tty;
    case app::ProgressMode::plain: return ProgressMode::plain;
    case app::ProgressMode::none: return ProgressMode::none;
    case app::ProgressMode::automatic: break;
  }
  return report::resolve(ProgressMode::automatic, device);
}

report::Write writer_for(std::FILE* stream) {
  return [stream](std::string_view text) { write_text(stream, text, Flush::now); };
}

study::PrintLine progress_printer(const Context& context) {
  if (progress_for(context) == report::ProgressMode::none) return [](const std::string&) {};
  return [](const std::string& line) { write_text(stderr, line + "\n", Flush::now); };
}

namespace {

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

}  // namespace

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

namespace {

constexpr std::size_t kMostNamed = 10;

}  // namespace

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
