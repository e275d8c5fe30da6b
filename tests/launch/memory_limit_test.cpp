#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "launch/supervise/verdict.hpp"
#include "support/catch.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// These tests need a kernel control group, if this machine allows creating one.

namespace trainctl::launch {
namespace {

constexpr std::uint64_t kLimit = 128U << 20;
constexpr std::size_t kTooMuch = 1U << 30;

bool put(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

/// A control group with a memory limit below a group of this process, if one can be made. The
/// destructor removes it.
class LimitedGroup {
 public:
  LimitedGroup() {
    const Cgroups own = read_cgroups("/", "memory");
    if (!make_below(own.v1, "memory.limit_in_bytes")) make_below(own.v2, "memory.max");
    if (!made()) return;
    put(path_ / "memory.swappiness", "0");
    put(path_ / "memory.swap.max", "0");
  }
  ~LimitedGroup() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::error_code failure;
    // The group is released shortly after its processes have ended.
    while (made() && ::rmdir(path_.c_str()) != 0 && fs::exists(path_, failure) &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
  }
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;

  [[nodiscard]] bool made() const { return !path_.empty(); }
  /// Moves the calling process and its future children into the group.
  [[nodiscard]] bool enter() const {
    return put(path_ / "cgroup.procs", std::to_string(::getpid()));
  }

 private:
  bool make_below(const std::vector<fs::path>& groups, const char* limit) {
    for (auto group = groups.rbegin(); group != groups.rend() && !made(); ++group) {
      const fs::path path = *group / ("trainctl-test-" + std::to_string(::getpid()));
      if (::mkdir(path.c_str(), 0755) != 0) continue;
      if (put(path / limit, std::to_string(kLimit))) {
        path_ = path;
      } else {
        ::rmdir(path.c_str());
      }
    }
    return made();
  }

  fs::path path_;
};

[[noreturn]] void take_too_much() {
  put("/proc/self/oom_score_adj", "1000");
  void* memory =
      ::mmap(nullptr, kTooMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(2);
  auto* bytes = static_cast<volatile char*>(memory);
  for (std::size_t at = 0; at < kTooMuch; at += 4096) bytes[at] = 1;
  ::_exit(0);
}

/// Returns the watch's explanations for a process that used too much memory and for one more kill;
/// "unlimited" if nothing was killed.
std::string explanations(const LimitedGroup& group) {
  if (!group.enter()) return "unlimited";
  OomKillTracker watch;
  const pid_t greedy = ::fork();
  if (greedy == 0) take_too_much();
  int status = 0;
  ::waitpid(greedy, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return "unlimited";
  const std::string first = watch.explain_kill(3 << 20);
  return first + " then" + watch.explain_kill(3 << 20);
}

/// Runs explanations() in a separate process, so that this one stays in its group.
std::string explanations_in(const LimitedGroup& group) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = explanations(group);
    const bool wrote = ::write(write_end.get(), text.data(), text.size()) > 0;
    ::_exit(wrote ? 0 : 1);
  }
  write_end = Fd();
  std::string text;
  std::array<char, 512> chunk{};
  for (ssize_t count = 0; (count = ::read(read_end.get(), chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(count));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return text;
}

}  // namespace

TEST_CASE("OomKillTracker: explains a process that the kernel killed for memory, and no other") {
  std::optional<std::string> text;
  {
    const LimitedGroup group;
    if (group.made()) text = explanations_in(group);
  }
  if (!text) skip("no control group with a limit of memory can be made here");
  if (*text == "unlimited") skip("the limit of a control group kills nothing here");
  const std::size_t then = text->find(" then");
  REQUIRE(then != std::string::npos);
  CHECK_THAT(text->substr(0, then), Contains("(out of memory: the kernel's oom_kill counter"));
  CHECK_THAT(text->substr(then), Contains("possibly out of memory"));
}

}  // namespace trainctl::launch
