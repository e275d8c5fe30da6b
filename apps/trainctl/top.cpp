#include "report/text/top.hpp"

#include "cli/verb.hpp"
#include "study/live/live_run.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>

namespace trainctl::app {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::array kStops{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

std::atomic<int> stop_signal{0};
std::atomic<bool> is_resized{false};
std::atomic<bool> is_suspended{false};

void on_stop(int signal) { stop_signal = signal; }
void on_resize(int /*signal*/) { is_resized = true; }
void on_suspend(int /*signal*/) { is_suspended = true; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART, so that poll() returns
  ::sigaction(signal, &action, nullptr);
}

void put_bytes(std::string_view text) { write_output(stdout, text, Flush::now); }

winsize size_of_screen() {
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  if (size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

/// Returns whether q or Ctrl-C (as a byte, if the terminal sends no signal) was typed.
bool asks_for_end() {
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) return true;  // the terminal was closed
  const std::string_view typed(keys.data(), static_cast<std::size_t>(count));
  return typed.find_first_of("qQ\x03\x04") != std::string_view::npos;
}

/// Shows the alternate screen of the terminal on stdout without a cursor, and reads keys without
/// Enter. The previous screen is restored by the destructor, when a signal ends the process, and
/// while the job is suspended with Ctrl-Z.
class FullScreen {
 public:
  FullScreen() {
    stop_signal = 0;
    for (const int signal : kStops) handle(signal, on_stop);
    handle(SIGWINCH, on_resize);
    handle(SIGTSTP, on_suspend);
    reads_keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    enter();
  }
  ~FullScreen() {
    leave();
    for (const int signal : kStops) handle(signal, SIG_DFL);
    handle(SIGWINCH, SIG_DFL);
    handle(SIGTSTP, SIG_DFL);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  /// Draws over the previous content without flicker; lines longer than the screen are cut.
  void draw(const std::string& text) const {
    std::vector<std::string> lines = split(text, '\n');
    for (std::string& line : lines) line += "\x1b[K";
    // Wrapping is off while drawing, so that the terminal cuts long lines.
    put_bytes("\x1b[?7l\x1b[H" + join(lines, "\r\n") + "\x1b[J\x1b[?7h");
  }

  enum class Request { none, redraw, end };
  /// Waits until the time is over, the size has changed (redraw), or q, Ctrl-C or a signal arrives.
  [[nodiscard]] Request wait(double seconds) const {
    const double deadline = steady_clock().now() + seconds;
    for (;;) {
      if (stop_signal != 0) return Request::end;
      if (is_suspended.exchange(false)) {
        suspend();
        return Request::redraw;
      }
      if (is_resized.exchange(false)) return Request::redraw;
      const double left = deadline - steady_clock().now();
      if (left <= 0) return Request::none;
      pollfd keys{STDIN_FILENO, POLLIN, 0};
      const int ready = ::poll(&keys, reads_keys_ ? 1 : 0,
                               static_cast<int>(std::clamp(left * 1000 + 1, 1.0, 1e6)));
      if (ready > 0 && asks_for_end()) return Request::end;
    }
  }

 private:
  void enter() const {
    if (reads_keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 1;
      raw.c_cc[VTIME] = 0;
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    put_bytes(kEnter);
  }

  void leave() const {
    put_bytes(kLeave);
    if (reads_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  // Ctrl-Z restores the shell's screen; raise() returns when the job is continued.
  void suspend() const {
    leave();
    handle(SIGTSTP, SIG_DFL);
    ::raise(SIGTSTP);
    handle(SIGTSTP, on_suspend);
    enter();
  }

  termios before_{};
  bool reads_keys_ = false;
};

struct TopFlags {
  std::string run = "latest";
  std::string out = "runs";
  double interval = 1;
  bool once = false;
};

void print_once(const report::TopView& view, const Context& context) {
  if (context.json) {
    print_json(report::top_json(view));
  } else {
    put(stdout, report::top_text(view, style_for(context, stdout)));
  }
}

/// Shows the run until it has ended or the user quits.
report::TopView watch(study::LiveRun& run, double interval, const Context& context) {
  const FullScreen screen;
  for (;;) {
    const report::TopView view = run.snapshot(steady_clock().now());
    if (view.state == report::TopState::ended || view.state == report::TopState::gone) return view;
    report::Style style = style_for(context, stdout);
    const winsize size = size_of_screen();
    style.width = size.ws_col;
    const std::string text = report::top_text(view, style, size.ws_row - 1);
    screen.draw(text + paint("press q to quit", report::Ink::dim, style));
    if (screen.wait(interval) == FullScreen::Request::end) return view;
  }
}

int top(const TopFlags& flags, const Context& context) {
  study::LiveRun run(study::find_run(flags.run, flags.out));
  const bool on_screen = !flags.once && !context.json && ::isatty(STDOUT_FILENO) == 1;
  const report::TopView first = run.snapshot(steady_clock().now());
  const bool lives =
      first.state == report::TopState::running || first.state == report::TopState::elsewhere;
  if (!on_screen || !lives) {
    print_once(first, context);
  } else {
    print_once(watch(run, flags.interval, context), context);
  }
  return 0;
}

}  // namespace

void add_top(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(
      program, context, {"top", "watch a run: ranks, speed, loss, time left", kTrainGroup}, top);
  add_options(verb,
              {{"run", flags.run, "[RUN]",
                "run folder, experiment name (its newest run) or latest (default: latest)"},
               {"--out", flags.out, "DIR", "parent folder of the run folders (default: runs)"},
               {"--interval", flags.interval, "S", "seconds between updates (default: 1)",
                within(0.1, 3600.0)},
               {"--once", flags.once, "print once as text (default if stdout is not a terminal)"}});
  verb.footer(
      "Press q or Ctrl-C to quit; the run continues. For a run that has ended, prints its result.");
}

}  // namespace trainctl::app
