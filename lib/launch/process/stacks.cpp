#include "launch/process/stacks.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/procfs.hpp"
#include "base/machine/stack_signal.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <system_error>

namespace trainctl::launch {
namespace {

using SteadyClock = std::chrono::steady_clock;
using TimePoint = SteadyClock::time_point;

constexpr auto kThreadTimeout = std::chrono::milliseconds(200);
constexpr auto kTotalTimeout = std::chrono::seconds(2);
constexpr std::size_t kMaxThreads = 512;
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxAnswerBytes = 1 << 16;
constexpr const char* kLegend =
    "Frames are MODULE(FUNCTION+OFFSET) [ADDRESS]; `addr2line -Cfie MODULE +OFFSET` prints the "
    "source line of a\nframe without a function.\n";

/// Asks the threads of one process for their frames.
class StackRequester {
 public:
  StackRequester(const StackSource& source, TimePoint deadline)
      : source_(source), deadline_(deadline) {}

  /// Returns one frame per line, or the reason why there are none.
  std::string request_stack(const ThreadState& thread) {
    if (!thread.has_handler)
      return "    no stack: its process does not handle the signal for stacks\n";
    if (thread.blocks_signal) return "    no stack: it blocks the signal\n";
    if (SteadyClock::now() >= deadline_) return "    no stack: the time limit was reached\n";
    read_some();
    received_.clear();  // late output of another thread
    if (::syscall(SYS_tgkill, source_.pid, thread.tid, stack_signal()) != 0)
      return "    it has exited\n";
    const std::string end = fmt::format("end {}\n", thread.tid);
    const TimePoint deadline = std::min(deadline_, SteadyClock::now() + kThreadTimeout);
    while (!received_.ends_with(end) && wait(deadline)) read_some();
    return frames(fmt::format("begin {}\n", thread.tid), end);
  }

 private:
  [[nodiscard]] bool wait(TimePoint deadline) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    if (closed_ || left.count() <= 0 || received_.size() >= kMaxAnswerBytes) return false;
    pollfd pipe{source_.fd, POLLIN, 0};
    const int ready = ::poll(&pipe, 1, static_cast<int>(left.count()));
    return ready > 0 || (ready < 0 && errno == EINTR);
  }

  // The loop is bounded, so that it ends even if the pipe never becomes empty.
  void read_some() {
    std::array<char, 4096> bytes{};
    for (std::size_t got = 0; got < kMaxAnswerBytes;) {
      const ssize_t count = ::read(source_.fd, bytes.data(), bytes.size());
      closed_ = count == 0;
      if (count <= 0) return;
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      got += static_cast<std::size_t>(count);
    }
  }

  [[nodiscard]] std::string frames(const std::string& begin, const std::string& end) const {
    const std::size_t first = received_.find(begin);
    if (first == std::string::npos) return "    no stack: it did not answer in time\n";
    std::string_view answer = std::string_view(received_).substr(first + begin.size());
    const std::size_t last = answer.find(end);
    answer = answer.substr(0, std::min(last, kMaxAnswerBytes));
    std::string text;
    for (const std::string& line : split(answer, '\n')) {
      if (!line.empty()) text += "    " + printable(line) + "\n";
    }
    if (last == std::string_view::npos) text += "    (incomplete)\n";
    return text;
  }

  const StackSource& source_;
  TimePoint deadline_;
  std::string received_;
  bool closed_ = false;
};

std::string thread_header(const ThreadState& thread) {
  std::string text = fmt::format("thread {} \"{}\": {}", thread.tid, printable(thread.name),
                                 thread.state.empty() ? "exited" : printable(thread.state));
  if (!thread.kernel_function.empty()) text += ", in " + printable(thread.kernel_function);
  if (!thread.system_call.empty()) text += "; system call: " + printable(thread.system_call);
  return text + "\n";
}

bool is_stopped(const ThreadState& thread) { return thread.state.starts_with('T'); }

std::string format_stacks(const StackSource& source, TimePoint deadline) {
  const ThreadList threads = list_threads(source.pid, kMaxThreads);
  const std::size_t count = threads.states.size() + threads.num_omitted;
  std::string text = fmt::format(
      "Stacks of rank {} (process {}, {} thread{}), written at {} because the job hangs\n{}",
      source.rank, source.pid, count, plural(count), utc_timestamp(), kLegend);
  // The process is continued only now, so that the states above are those of the hang.
  if (std::ranges::any_of(threads.states, is_stopped)) ::kill(source.pid, SIGCONT);
  StackRequester requester(source, deadline);
  for (const ThreadState& thread : threads.states)
    text += "\n" + thread_header(thread) + requester.request_stack(thread);
  if (threads.num_omitted > 0) text += fmt::format("\n{} more threads\n", threads.num_omitted);
  constexpr std::string_view kCut = "\n(truncated)\n";
  if (text.size() > kMaxBytes) text.replace(kMaxBytes - kCut.size(), std::string::npos, kCut);
  return text;
}

// The file is not synced, since the disk may be the cause of the hang.
void write_text(const fs::path& path, const std::string& text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid(), "cannot write {}: {}", printable(path.string()),
         std::strerror(errno));
  write_all(fd.get(), text, path.string());
}

constexpr std::size_t kMaxFrames = 96;
// The frames of the handler and of the kernel's signal trampoline.
constexpr int kHandlerFrames = 2;

std::atomic<int> answer_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free);

// ---- Only async-signal-safe calls from here: the thread may hold any lock, including malloc's.

void write_marker(int fd, std::string_view word, pid_t thread) {
  std::array<char, 32> line{};
  char* end = std::copy(word.begin(), word.end(), line.data());
  end = std::to_chars(end, line.data() + line.size() - 1, thread).ptr;
  *end++ = '\n';
  const ssize_t ignored = ::write(fd, line.data(), static_cast<std::size_t>(end - line.data()));
  static_cast<void>(ignored);
}

extern "C" void write_own_stack(int /*signal*/) {
  const int errno_before = errno;
  const int fd = answer_fd.load();
  const pid_t thread = ::gettid();
  write_marker(fd, "begin ", thread);
  std::array<void*, kMaxFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  const int skipped = std::min(count, kHandlerFrames);
  // The call does not allocate. It takes the lock of the dynamic linker, so a thread that hangs
  // there blocks the answers of other threads; the supervisor does not wait for them.
  ::backtrace_symbols_fd(frames.data() + skipped, count - skipped, fd);
  write_marker(fd, "end ", thread);
  errno = errno_before;
}

bool has_stack_signal(std::string_view hex) {
  std::uint64_t mask = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), mask, 16);
  return ((mask >> (stack_signal() - 1)) & 1) != 0;
}

// Parses lines like "State:\\tS (sleeping)".
void read_status(const fs::path& file, ThreadState& thread) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(":\t");
    if (colon == std::string::npos) continue;
    const std::string_view key = std::string_view(line).substr(0, colon);
    const std::string_view value = std::string_view(line).substr(colon + 2);
    if (key == "State") thread.state = value;
    if (key == "SigBlk") thread.blocks_signal = has_stack_signal(value);
    if (key == "SigCgt") thread.has_handler = has_stack_signal(value);
  }
}

// The kernel reads none of these files under the mmap lock of the process, which a thread in
// uninterruptible sleep may hold; `cmdline`, `environ` and `maps` need the lock.
ThreadState read_thread(const fs::path& folder, pid_t tid) {
  ThreadState thread;
  thread.tid = tid;
  thread.name = first_line_of(folder / "comm");
  thread.kernel_function = first_line_of(folder / "wchan");
  if (thread.kernel_function == "0") thread.kernel_function.clear();
  thread.system_call = first_line_of(folder / "syscall");
  read_status(folder / "status", thread);
  return thread;
}

}  // namespace

fs::path stacks_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.stacks.txt", rank);
}

void remove_stacks(const fs::path& log_folder, int rank) {
  std::error_code ignored;
  fs::remove(stacks_path(log_folder, rank), ignored);
}

std::vector<int> write_stacks(const fs::path& log_folder, std::span<const StackSource> sources) {
  const TimePoint deadline = SteadyClock::now() + kTotalTimeout;
  std::vector<int> written;
  for (const StackSource& source : sources) {
    try {
      write_text(stacks_path(log_folder, source.rank), format_stacks(source, deadline));
      written.push_back(source.rank);
    } catch (const std::exception& error) {
      log::get().warn("cannot save the stacks of rank {}: {}", source.rank, error.what());
    }
  }
  return written;
}

void install_stack_handler(int fd) {
  if (fd < 0) return;
  // The first call loads a library and allocates, which a signal handler must not do.
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), static_cast<int>(frame.size()));
  answer_fd = fd;
  struct sigaction action {};
  action.sa_handler = write_own_stack;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  ::sigaction(stack_signal(), &action, nullptr);
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, stack_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &asked, nullptr);
}

ThreadList list_threads(pid_t pid, std::size_t most) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "task";
  std::vector<pid_t> tids;
  for_each_entry(folder, [&](const fs::path& entry) {
    if (const auto tid = parse_number<pid_t>(entry.filename().string())) tids.push_back(*tid);
  });
  std::ranges::sort(tids, {}, [&](pid_t tid) { return std::pair(tid != pid, tid); });
  ThreadList threads;
  threads.num_omitted = tids.size() - std::min(tids.size(), most);
  tids.resize(tids.size() - threads.num_omitted);
  for (const pid_t tid : tids)
    threads.states.push_back(read_thread(folder / std::to_string(tid), tid));
  return threads;
}

}  // namespace trainctl::launch
