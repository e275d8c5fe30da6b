#include "cli/standard_streams.hpp"

#include "base/error.hpp"
#include "log/log.hpp"
#include "log/stream_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

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
  if (!text.empty()) state_of(stream).has_text = true;
  log::write_text(stream, text, flush == Flush::now ? log::Flush::now : log::Flush::later);
}

bool is_lost(std::FILE* stream) { return log::lost_cause(stream) != 0; }

bool has_output(std::FILE* stream) { return state_of(stream).has_text; }

std::optional<std::string> take_lost_output_notice() {
  for (StreamState* state : {&stdout_state, &stderr_state}) {
    if (!is_lost(state->stream) || state->is_reported) continue;
    state->is_reported = true;
    return lost_output_text(*state) + "; this output is turned off and the run continues";
  }
  return std::nullopt;
}

void finish_output() {
  write_text(stdout, "", Flush::now);
  if (!is_lost(stdout)) return;
  if (!tolerates_lost_output) throw Error(ErrorKind::resource, lost_output_text(stdout_state));
  if (!stdout_state.is_reported) log::get().warn("{}", lost_output_text(stdout_state));
}

}  // namespace trainctl::app
