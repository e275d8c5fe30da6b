#include "events/pipe.hpp"

#include "base/error.hpp"
#include "events/codec.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace trainctl::events {
namespace {

// Returns 0 or errno.
int write_bytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

EventWriter::EventWriter(int fd) : fd_(fd) { std::signal(SIGPIPE, SIG_IGN); }

void EventWriter::write(const Event& event) {
  std::string line = encode(event);
  line += '\n';
  if (line.size() > kMaxLineBytes) {
    throw Error(
        ErrorKind::unexpected,
        fmt::format(
            "a progress report must have at most {1} bytes, got {0} bytes that begin with '{2}'",
            line.size(), kMaxLineBytes, line.substr(0, 60)));
  }
  const std::lock_guard lock(mutex_);
  if (cut_off_) return;
  const int failure = write_bytes(fd_, line);
  cut_off_ = failure == EPIPE;
  if (failure != 0 && !cut_off_) {
    throw Error(ErrorKind::resource,
                fmt::format("cannot report to the trainctl process that started this rank: {}",
                            std::strerror(failure)));
  }
}

bool EventWriter::is_cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

LineReader::State LineReader::read_some(int fd, const LineHandler& on_line) {
  std::array<char, 1 << 16> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR ? State::empty : State::closed;
  if (count == 0) return State::closed;
  std::string_view fresh(buffer.data(), static_cast<std::size_t>(count));
  for (std::size_t end = fresh.find('\n'); end != std::string_view::npos; end = fresh.find('\n')) {
    if (pending_.size() + end > max_line_bytes_) return State::too_long;
    pending_ += fresh.substr(0, end);
    fresh.remove_prefix(end + 1);
    const std::string line = std::exchange(pending_, {});
    on_line(line);
  }
  if (pending_.size() + fresh.size() > max_line_bytes_) return State::too_long;
  pending_ += fresh;
  return State::more;
}

}  // namespace trainctl::events
