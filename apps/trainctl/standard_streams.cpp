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

namespace trainctl::app {
namespace {

struct StreamState {
  const char* name;
  int cause = 0;  // errno of the first write that failed
  bool is_reported = false;
  bool has_text = false;
};

StreamState stdout_state{"stdout"};
StreamState stderr_state{"stderr"};
bool tolerates_lost_output = false;

StreamState& state_of(std::FILE* stream) { return stream == stdout ? stdout_state : stderr_state; }

// A terminal that another program has made non-blocking is not lost.
bool may_retry(std::FILE* stream) {
  constexpr int kPollMs = 100;
  if (errno != EAGAIN && errno != EINTR) return false;
  pollfd writable{::fileno(stream), POLLOUT, 0};
  if (errno == EAGAIN) ::poll(&writable, 1, kPollMs);
  std::clearerr(stream);
  return true;
}

// What is buffered still, and what libraries write, goes nowhere from here on.
void mark_lost(std::FILE* stream, int cause) {
  state_of(stream).cause = cause;
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere.valid()) ::dup2(nowhere.get(), ::fileno(stream));
  std::clearerr(stream);
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
  StreamState& state = state_of(stream);
  state.has_text = state.has_text || !text.empty();
  if (state.cause != 0) return;
  for (;;) {
    text.remove_prefix(std::fwrite(text.data(), 1, text.size(), stream));
    if (text.empty() && (flush == Flush::later || std::fflush(stream) == 0)) return;
    if (!may_retry(stream)) return mark_lost(stream, errno);
  }
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
