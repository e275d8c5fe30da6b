#include "log/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>

template void fmt::detail::vformat_to<char>(buffer<char>&, string_view,
                                            basic_format_args<buffer_context<char>>, locale_ref);

namespace trainctl::log {
namespace {

spdlog::level::level_enum level_of(Level level) {
  constexpr std::array kLevels{spdlog::level::err, spdlog::level::info, spdlog::level::debug,
                               spdlog::level::trace};
  return kLevels.at(static_cast<std::size_t>(level));
}

std::string_view color_code(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace: return "\x1b[37m";
    case spdlog::level::debug: return "\x1b[36m";
    case spdlog::level::info: return "\x1b[32m";
    case spdlog::level::warn: return "\x1b[33m\x1b[1m";
    case spdlog::level::err: return "\x1b[31m\x1b[1m";
    default: return "\x1b[1m\x1b[41m";
  }
}

/// spdlog's own sinks ignore failed writes, for example to a non-blocking pipe that is full.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_colored(bool colored) { colored_ = colored; }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string text(formatted.data(), formatted.size());
    if (colored_ && message.color_range_end > message.color_range_start) {
      text.insert(message.color_range_end, "\x1b[m");
      text.insert(message.color_range_start, color_code(message.level));
    }
    write_log(text);
  }
  void flush_() override {}

  std::atomic<bool> colored_ = false;
};

const std::shared_ptr<StderrSink>& sink() {
  static const auto made = std::make_shared<StderrSink>();
  return made;
}

/// Buffers text here, since glibc discards the buffer of a stream after EAGAIN.
struct StreamState {
  int fd;
  std::atomic<int> cause = 0;  // errno of the first failed write
  std::string pending = {};    // text that is not written yet
};

StreamState stdout_state{STDOUT_FILENO};
StreamState stderr_state{STDERR_FILENO};
std::mutex streams_mutex;

StreamState& state_of(std::FILE* stream) { return stream == stdout ? stdout_state : stderr_state; }

// Libraries may also write to the descriptor; their text is discarded too from now on.
void mark_lost(StreamState& state, int cause) {
  state.cause = cause;
  state.pending.clear();
  const int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null_device < 0) return;
  ::dup2(null_device, state.fd);
  if (null_device != state.fd) ::close(null_device);
}

// The descriptor may be non-blocking, because the program at its other end made it so. Returns the
// errno of the failed write, or 0 on success.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void write_pending(StreamState& state) {
  if (const int cause = write_all(state.fd, state.pending); cause != 0) mark_lost(state, cause);
  state.pending.clear();
}

}  // namespace

spdlog::logger& get() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("trainctl", sink());
    made->set_pattern("[%H:%M:%S.%e] %^%l%$ %v");
    return made;
  }();
  return *logger;
}

void set_up(Level level, Colors colors) {
  sink()->set_colored(colors == Colors::on);
  get().set_level(level_of(level));
}

void write_text(std::FILE* stream, std::string_view text, Flush flush) {
  constexpr std::size_t kBufferBytes = 1U << 16U;
  const std::lock_guard lock(streams_mutex);
  StreamState& state = state_of(stream);
  if (state.cause != 0) return;
  state.pending += text;
  const bool is_due = flush == Flush::now || stream == stderr || ::isatty(state.fd) != 0;
  if (is_due || state.pending.size() >= kBufferBytes) write_pending(state);
}

void write_log(std::string_view lines) {
  const std::lock_guard lock(streams_mutex);
  if (stderr_state.cause == 0) (void)write_all(stderr_state.fd, lines);
}

int lost_cause(std::FILE* stream) { return state_of(stream).cause; }

}  // namespace trainctl::log
