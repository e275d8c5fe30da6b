#include "launch/process/stacks.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/stack_signal.hpp"
#include "base/strings.hpp"
#include "launch/process/threads.hpp"
#include "log/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

namespace trainctl::launch {
namespace {

using Clockwork = std::chrono::steady_clock;
using Moment = Clockwork::time_point;

constexpr auto kEachThread = std::chrono::milliseconds(200);
constexpr auto kAllThreads = std::chrono::seconds(2);
constexpr std::size_t kMostThreads = 512;
constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostAnswerBytes = 1 << 16;
constexpr const char* kLegend =
    "Frames are MODULE(FUNCTION+OFFSET) [ADDRESS]; `addr2line -Cfie MODULE +OFFSET` names the line "
    "of one\nwithout a function.\n";

/// Asks the threads of one process.
class Asker {
 public:
  Asker(const StackSource& source, Moment until) : source_(source), until_(until) {}

  /// Frames, one a line, or why there are none.
  std::string ask(const ThreadState& thread) {
    if (!thread.catches) return "    not asked: its process has no handler for the signal\n";
    if (thread.blocks) return "    not asked: it blocks the signal\n";
    if (Clockwork::now() >= until_) return "    not asked: the time was up\n";
    read_some();
    received_.clear();  // of an earlier one, too late
    if (::syscall(SYS_tgkill, source_.pid, thread.tid, stack_signal()) != 0)
      return "    it has ended\n";
    const std::string end = fmt::format("end {}\n", thread.tid);
    const Moment until = std::min(until_, Clockwork::now() + kEachThread);
    while (!received_.ends_with(end) && wait(until)) read_some();
    return frames(fmt::format("begin {}\n", thread.tid), end);
  }

 private:
  [[nodiscard]] bool wait(Moment until) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clockwork::now());
    if (closed_ || left.count() <= 0 || received_.size() >= kMostAnswerBytes) return false;
    pollfd pipe{source_.fd, POLLIN, 0};
    const int ready = ::poll(&pipe, 1, static_cast<int>(left.count()));
    return ready > 0 || (ready < 0 && errno == EINTR);
  }

  // A pipe that is never empty ends here after a while, too.
  void read_some() {
    std::array<char, 4096> bytes{};
    for (std::size_t got = 0; got < kMostAnswerBytes;) {
      const ssize_t count = ::read(source_.fd, bytes.data(), bytes.size());
      closed_ = count == 0;
      if (count <= 0) return;
      received_.append(bytes.data(), static_cast<std::size_t>(count));
      got += static_cast<std::size_t>(count);
    }
  }

  [[nodiscard]] std::string frames(const std::string& begin, const std::string& end) const {
    const std::size_t first = received_.find(begin);
    if (first == std::string::npos) return "    no answer\n";
    std::string_view answer = std::string_view(received_).substr(first + begin.size());
    const std::size_t last = answer.find(end);
    answer = answer.substr(0, std::min(last, kMostAnswerBytes));
    std::string text;
    for (const std::string& line : split(answer, '\n')) {
      if (!line.empty()) text += "    " + printable(line) + "\n";
    }
    if (last == std::string_view::npos) text += "    the answer ends here\n";
    return text;
  }

  const StackSource& source_;
  Moment until_;
  std::string received_;
  bool closed_ = false;
};

std::string headline(const ThreadState& thread) {
  std::string text = fmt::format("thread {} \"{}\": {}", thread.tid, printable(thread.name),
                                 thread.state.empty() ? "gone" : printable(thread.state));
  if (!thread.waits_in.empty()) text += ", in " + printable(thread.waits_in);
  if (!thread.system_call.empty()) text += "; system call: " + printable(thread.system_call);
  return text + "\n";
}

bool is_stopped(const ThreadState& thread) { return thread.state.starts_with('T'); }

std::string stacks_of(const StackSource& source, Moment until) {
  const Threads threads = threads_of(source.pid, kMostThreads);
  std::string text = fmt::format(
      "{}: rank {}, process {}, {} thread{}, asked because the job hangs\n{}", utc_timestamp(),
      source.rank, source.pid, threads.states.size() + threads.left_out,
      threads.states.size() + threads.left_out == 1 ? "" : "s", kLegend);
  // Only now: the states above are those of the hang.
  if (std::ranges::any_of(threads.states, is_stopped)) ::kill(source.pid, SIGCONT);
  Asker asker(source, until);
  for (const ThreadState& thread : threads.states)
    text += "\n" + headline(thread) + asker.ask(thread);
  if (threads.left_out > 0) text += fmt::format("\n{} more threads\n", threads.left_out);
  constexpr std::string_view kCut = "\n(cut here)\n";
  if (text.size() > kMostBytes) text.replace(kMostBytes - kCut.size(), std::string::npos, kCut);
  return text;
}

// Not synced: what is wrong may be the disk.
void write_text(const std::filesystem::path& path, const std::string& text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid(), "cannot write {}: {}", printable(path.string()),
         std::strerror(errno));
  write_all(fd.get(), text, path.string());
}

}  // namespace

std::filesystem::path stacks_path(const std::filesystem::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.stacks.txt", rank);
}

void remove_stacks(const std::filesystem::path& log_folder, int rank) {
  std::error_code ignored;
  std::filesystem::remove(stacks_path(log_folder, rank), ignored);
}

std::vector<int> write_stacks(const std::filesystem::path& log_folder,
                              std::span<const StackSource> sources) {
  const Moment until = Clockwork::now() + kAllThreads;
  std::vector<int> written;
  for (const StackSource& source : sources) {
    try {
      write_text(stacks_path(log_folder, source.rank), stacks_of(source, until));
      written.push_back(source.rank);
    } catch (const std::exception& error) {
      log::get().warn("the stacks of rank {} are lost: {}", source.rank, error.what());
    }
  }
  return written;
}

}  // namespace trainctl::launch
