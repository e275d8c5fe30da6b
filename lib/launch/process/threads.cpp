#include "launch/process/threads.hpp"

#include "base/stack_signal.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainctl::launch {
namespace {

namespace fs = std::filesystem;

// Empty where the thread ends meanwhile.
std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<pid_t> number(const std::string& text) {
  pid_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

bool holds_stack_signal(std::string_view hex) {
  std::uint64_t mask = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), mask, 16);
  return ((mask >> (stack_signal() - 1)) & 1) != 0;
}

// Lines "State:\tS (sleeping)".
void read_status(const fs::path& file, ThreadState& thread) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(":\t");
    if (colon == std::string::npos) continue;
    const std::string_view key = std::string_view(line).substr(0, colon);
    const std::string_view value = std::string_view(line).substr(colon + 2);
    if (key == "State") thread.state = value;
    if (key == "SigBlk") thread.blocks = holds_stack_signal(value);
    if (key == "SigCgt") thread.catches = holds_stack_signal(value);
  }
}

// None of these files is read under the lock of the process's memory, which a thread in an
// uninterruptible wait may hold; `cmdline`, `environ` and `maps` are.
ThreadState read_thread(const fs::path& folder, pid_t tid) {
  ThreadState thread;
  thread.tid = tid;
  thread.name = first_line(folder / "comm");
  thread.waits_in = first_line(folder / "wchan");
  if (thread.waits_in == "0") thread.waits_in.clear();
  thread.system_call = first_line(folder / "syscall");
  read_status(folder / "status", thread);
  return thread;
}

}  // namespace

Threads threads_of(pid_t pid, std::size_t most) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "task";
  std::vector<pid_t> tids;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  while (!failure && entry != fs::directory_iterator()) {
    if (const auto tid = number(entry->path().filename().string())) tids.push_back(*tid);
    entry.increment(failure);
  }
  std::ranges::sort(tids, {}, [&](pid_t tid) { return std::pair(tid != pid, tid); });
  Threads threads;
  threads.left_out = tids.size() - std::min(tids.size(), most);
  tids.resize(tids.size() - threads.left_out);
  for (const pid_t tid : tids)
    threads.states.push_back(read_thread(folder / std::to_string(tid), tid));
  return threads;
}

}  // namespace trainctl::launch
