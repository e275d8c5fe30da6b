#include "cli/long_task.hpp"

#include <csignal>

namespace trainctl::app {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

/// Records SIGINT and SIGTERM during its lifetime; a second signal ends the program immediately.
class NotedSignals {
 public:
  NotedSignals() {
    struct sigaction noted {};
    noted.sa_handler = [](int number) { stop_signal = number; };
    noted.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &noted, nullptr);
  }
  ~NotedSignals() {
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
};

}  // namespace

CounterLine::CounterLine(const Context& context, std::string label)
    : label_(std::move(label)),
      mode_(progress_for(context)),
      style_(style_for(context, stderr)),
      write_(writer_for(stderr)),
      started_(steady_clock().now()),
      drawn_(started_) {}

CounterLine::~CounterLine() {
  if (on_terminal_) write_("\r\x1b[K");
}

void CounterLine::update(std::int64_t done, std::int64_t total) {
  constexpr double kRedrawEvery = 0.1;
  constexpr double kPlainEvery = 10;
  if (mode_ == report::ProgressMode::none) return;
  if (first_ < 0) first_ = done - 1;
  const double time = steady_clock().now();
  const bool terminal = mode_ == report::ProgressMode::tty;
  if (time - drawn_ < (terminal ? kRedrawEvery : kPlainEvery)) return;
  drawn_ = time;
  on_terminal_ = terminal;
  const std::string line = text(done, total, time - started_);
  write_(terminal ? "\r" + line + "\x1b[K" : line + "\n");
}

std::function<void(std::int64_t, std::int64_t)> CounterLine::progress() {
  return [this](std::int64_t done, std::int64_t total) {
    ENSURE(interrupted, stop_signal == 0, "stopped");
    update(done, total);
  };
}

std::string CounterLine::text(std::int64_t done, std::int64_t total, double elapsed) const {
  constexpr int kBarWidth = 10;
  const double rate = static_cast<double>(done - first_) / std::max(elapsed, 1e-9);
  const double share =
      static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total, 1));
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0;
  return fmt::format("{} {:3.0f}%|{}| {}/{} [{}<{}, {:.1f} it/s]", label_, share * 100,
                     report::bar_text(share, kBarWidth, style_.glyphs), done, total,
                     report::clock_text(elapsed), report::clock_text(left), rate);
}

void run_until_signal(const std::function<void()>& task, const char* note) {
  try {
    const NotedSignals noted;
    return task();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
  }
  put(stderr, note);
  std::raise(stop_signal);
  throw Error(ErrorKind::interrupted, "stopped");
}

}  // namespace trainctl::app
