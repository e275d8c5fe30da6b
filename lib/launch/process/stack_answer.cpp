#include "launch/process/stack_answer.hpp"

#include "base/stack_signal.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>

namespace trainctl::launch {
namespace {

constexpr std::size_t kMostFrames = 96;
// The handler and the kernel's return from it.
constexpr int kOwnFrames = 2;

std::atomic<int> answer_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free);

// ---- Async-signal-safe from here: the thread may hold any lock, that of malloc included.

void write_mark(int fd, std::string_view word, pid_t thread) {
  std::array<char, 32> line{};
  char* end = std::copy(word.begin(), word.end(), line.data());
  end = std::to_chars(end, line.data() + line.size() - 1, thread).ptr;
  *end++ = '\n';
  const ssize_t ignored = ::write(fd, line.data(), static_cast<std::size_t>(end - line.data()));
  static_cast<void>(ignored);
}

extern "C" void answer_where(int /*signal*/) {
  const int errno_before = errno;
  const int fd = answer_fd.load();
  const pid_t thread = ::gettid();
  write_mark(fd, "begin ", thread);
  std::array<void*, kMostFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  const int skipped = std::min(count, kOwnFrames);
  // Allocates nothing. It takes the lock of the dynamic linker, so a thread that hangs in there
  // keeps the others from going on: the supervisor does not wait for them.
  ::backtrace_symbols_fd(frames.data() + skipped, count - skipped, fd);
  write_mark(fd, "end ", thread);
  errno = errno_before;
}

}  // namespace

void answer_with_stacks(int fd) {
  if (fd < 0) return;
  // The first call loads a library and allocates, which a handler may not.
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), static_cast<int>(frame.size()));
  answer_fd = fd;
  struct sigaction action {};
  action.sa_handler = answer_where;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  ::sigaction(stack_signal(), &action, nullptr);
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, stack_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &asked, nullptr);
}

}  // namespace trainctl::launch
