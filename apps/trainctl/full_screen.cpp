#include "full_screen.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"
#include "cli/standard_streams.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>
#include <vector>

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
  action.sa_handler = handler;  // without SA_RESTART: poll() ends
  ::sigaction(signal, &action, nullptr);
}

void put_bytes(std::string_view text) { write_text(stdout, text, Flush::now); }

winsize size_of_screen() {
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return size;
}

/// Whether q or Ctrl-C (as a byte, where the terminal sends no signal) is among the keys.
bool asks_for_end() {
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) return true;  // nobody is at the terminal any more
  const std::string_view typed(keys.data(), static_cast<std::size_t>(count));
  return typed.find_first_of("qQ\x03\x04") != std::string_view::npos;
}

}  // namespace

FullScreen::FullScreen() {
  stop_signal = 0;
  for (const int signal : kStops) handle(signal, on_stop);
  handle(SIGWINCH, on_resize);
  handle(SIGTSTP, on_suspend);
  reads_keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  enter();
}

FullScreen::~FullScreen() {
  leave();
  for (const int signal : kStops) handle(signal, SIG_DFL);
  handle(SIGWINCH, SIG_DFL);
  handle(SIGTSTP, SIG_DFL);
}

void FullScreen::enter() const {
  if (reads_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  put_bytes(kEnter);
}

void FullScreen::leave() const {
  put_bytes(kLeave);
  if (reads_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

// Ctrl-Z gives the shell its screen back; raise() returns when the job goes on.
void FullScreen::suspend() const {
  leave();
  handle(SIGTSTP, SIG_DFL);
  ::raise(SIGTSTP);
  handle(SIGTSTP, on_suspend);
  enter();
}

int FullScreen::width() const {
  const winsize size = size_of_screen();
  return size.ws_col > 0 ? size.ws_col : 80;
}

int FullScreen::height() const {
  const winsize size = size_of_screen();
  return size.ws_row > 0 ? size.ws_row : 24;
}

void FullScreen::draw(const std::string& text) const {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line += "\x1b[K";
  // No wrapping meanwhile: the terminal cuts a long line.
  put_bytes("\x1b[?7l\x1b[H" + join(lines, "\r\n") + "\x1b[J\x1b[?7h");
}

FullScreen::Wish FullScreen::wait(double seconds) const {
  const double deadline = steady_clock().now() + seconds;
  for (;;) {
    if (stop_signal != 0) return Wish::end;
    if (is_suspended.exchange(false)) {
      suspend();
      return Wish::redraw;
    }
    if (is_resized.exchange(false)) return Wish::redraw;
    const double left = deadline - steady_clock().now();
    if (left <= 0) return Wish::none;
    pollfd keys{STDIN_FILENO, POLLIN, 0};
    const int ready =
        ::poll(&keys, reads_keys_ ? 1 : 0, static_cast<int>(std::clamp(left * 1000 + 1, 1.0, 1e6)));
    if (ready > 0 && asks_for_end()) return Wish::end;
  }
}

}  // namespace trainctl::app
