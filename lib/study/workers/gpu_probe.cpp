#include "study/workers/gpu_probe.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

namespace trainctl::launch {
namespace {

// Of the driver's interface, which has no header here: both return 0 where all is well.
using Init = int (*)(unsigned flags);
using Count = int (*)(int* count);

// The child's answer: a number, or why there is none.
std::string ask_driver(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fmt::format("the driver's library {} cannot be loaded", library);
  const auto init = reinterpret_cast<Init>(::dlsym(handle, "cuInit"));
  const auto count = reinterpret_cast<Count>(::dlsym(handle, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return fmt::format("{} is no CUDA driver", library);
  if (const int code = init(0); code != 0)
    return fmt::format("the CUDA driver refuses with error {}", code);
  int found = 0;
  if (const int code = count(&found); code != 0)
    return fmt::format("the CUDA driver refuses with error {}", code);
  return std::to_string(found);
}

[[noreturn]] void answer(int fd, const std::string& library, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  const Fd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nowhere.get(), STDOUT_FILENO);
  ::dup2(nowhere.get(), STDERR_FILENO);
  const std::string text = ask_driver(library);
  const ssize_t written = ::write(fd, text.data(), text.size());
  ::_exit(written < 0 ? 1 : 0);
}

std::string read_answer(int fd, double timeout_s) {
  std::string text;
  std::array<char, 512> buffer{};
  const double deadline = steady_clock().now() + timeout_s;
  while (true) {
    const double left = deadline - steady_clock().now();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000) + 1) == 0) {
      return "the CUDA driver did not answer within " + human_duration(timeout_s);
    }
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// Bounded: a process in an uninterruptible wait is left behind; it dies when that ends.
void bury(pid_t pid) {
  constexpr int kRounds = 2000;
  ::kill(pid, SIGKILL);
  for (int i = 0; i < kRounds && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GpuProbe parse(const std::string& text) {
  GpuProbe probe;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), probe.count);
  if (failure == std::errc() && end == text.data() + text.size()) {
    if (probe.count == 0) probe.problem = "the CUDA driver finds no GPU";
    return probe;
  }
  return {0, text.empty() ? "the CUDA driver crashed" : text};
}

}  // namespace

GpuProbe probe_gpus(const std::string& library, double timeout_s) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return {0, "no pipe could be made to ask the CUDA driver"};
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return {0, "no process could be started to ask the CUDA driver"};
  if (pid == 0) answer(writing.get(), library, parent);
  writing.reset();
  const std::string text = read_answer(reading.get(), timeout_s);
  bury(pid);
  return parse(text);
}

}  // namespace trainctl::launch
