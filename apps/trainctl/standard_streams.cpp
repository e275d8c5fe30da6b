#include "standard_streams.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "log/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

namespace trainctl::app {
namespace {

/// Text is kept here instead of in the stream's own buffer, which glibc discards after EAGAIN.
struct StreamState {
  const char* name;
  int fd;
  int cause = 0;  // errno of the first write that failed
  bool is_reported = false;
  bool has_text = false;
  std::string pending = {};  // text that is not written yet
};

StreamState stdout_state{"stdout", STDOUT_FILENO};
StreamState stderr_state{"stderr", STDERR_FILENO};
std::mutex streams_mutex;
bool tolerates_lost_output = false;

StreamState& state_of(std::FILE* stream) { return stream == stdout ? stdout_state : stderr_state; }

// Libraries may write to the descriptor as well: after this, their text is discarded too.
void mark_lost(StreamState& state, int cause) {
  state.cause = cause;
  state.pending.clear();
  const Fd null_device(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null_device.valid()) ::dup2(null_device.get(), state.fd);
}

// The descriptor may be non-blocking, because the program at its other end has set that.
void write_pending(StreamState& state) {
  std::string_view text = state.pending;
  while (!text.empty()) {
    const ssize_t written = ::write(state.fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{state.fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return mark_lost(state, errno);
    }
  }
  state.pending.clear();
}

std::string lost_output_text(const StreamState& state) {
  return fmt::format("cannot write to {}: {}", state.name, std::strerror(state.cause));
}

}  // namespace

void prepare_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is the one that open() returns.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

void keep_running_without_output(LostOutput lost_output) {
  std::signal(SIGPIPE, SIG_IGN);
  tolerates_lost_output = lost_output == LostOutput::is_tolerated;
}

void write_text(std::FILE* stream, std::string_view text, Flush flush) {
  constexpr std::size_t kBufferBytes = 1U << 16U;
  const std::lock_guard lock(streams_mutex);
  StreamState& state = state_of(stream);
  state.has_text = state.has_text || !text.empty();
  if (state.cause != 0) return;
  state.pending += text;
  const bool is_due = flush == Flush::now || stream == stderr || ::isatty(state.fd) != 0;
  if (is_due || state.pending.size() >= kBufferBytes) write_pending(state);
}

bool is_lost(std::FILE* stream) { return state_of(stream).cause != 0; }

bool has_output(std::FILE* stream) { return state_of(stream).has_text; }

std::optional<std::string> take_lost_output_notice() {
  for (StreamState* state : {&stdout_state, &stderr_state}) {
    if (state->cause == 0 || state->is_reported) continue;
    state->is_reported = true;
    return lost_output_text(*state) + "; this output is turned off and the run continues";
  }
  return std::nullopt;
}

void finish_output() {
  write_text(stdout, "", Flush::now);
  if (stdout_state.cause == 0) return;
  if (!tolerates_lost_output) throw Error(ErrorKind::resource, lost_output_text(stdout_state));
  if (!stdout_state.is_reported) log::get().warn("{}", lost_output_text(stdout_state));
}

}  // namespace trainctl::app
