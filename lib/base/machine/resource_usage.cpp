#include "base/machine/resource_usage.hpp"

#include "base/machine/cgroup.hpp"
#include "base/machine/machine.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=309894680": microseconds.
std::optional<double> stalled_in(const fs::path& file) {
  constexpr std::string_view kTotal = "total=";
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("some ")) continue;
    const std::size_t at = line.rfind(kTotal);
    if (at == std::string::npos) return std::nullopt;
    const auto total = number_in<std::int64_t>(std::string_view(line).substr(at + kTotal.size()));
    return total ? std::optional(static_cast<double>(*total) * 1e-6) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> stalled(const fs::path& root, const Cgroups& groups, const char* what) {
  for (std::size_t i = groups.v2.size(); i > 0; --i) {
    if (const auto own = stalled_in(groups.v2[i - 1] / (std::string(what) + ".pressure")))
      return own;
  }
  return stalled_in(root / "proc/pressure" / what);
}

std::optional<std::int64_t> counter_in(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string name;
  std::string value;
  while (in >> name >> value) {
    if (name == key) return number_in<std::int64_t>(value);
  }
  return std::nullopt;
}

// Of the group that was stopped most often: each has a quota of its own.
void read_throttling(const Cgroups& groups, UsageCounters& into) {
  std::vector<fs::path> all = groups.v2;
  all.insert(all.end(), groups.v1.begin(), groups.v1.end());
  for (const fs::path& group : all) {
    const auto throttled = counter_in(group / "cpu.stat", "nr_throttled");
    const auto periods = counter_in(group / "cpu.stat", "nr_periods");
    if (!throttled || !periods || (into.throttled && *throttled < *into.throttled)) continue;
    into.throttled = throttled;
    into.periods = periods;
  }
}

// "4711 (trainctl-loader) S 1 ...": fields 14 and 15 are ticks in user and kernel mode.
std::optional<double> cpu_of_thread(const fs::path& task, const std::string& wanted) {
  std::ifstream in(task / "stat");
  std::string line;
  std::getline(in, line);
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  if (line.substr(open + 1, close - open - 1) != wanted) return std::nullopt;
  constexpr int kBetween = 11;  // state, parent, ... up to field 13
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) rest >> skipped;
  std::int64_t user = 0;
  std::int64_t kernel = 0;
  if (!(rest >> user >> kernel)) return std::nullopt;
  return static_cast<double>(user + kernel) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void read_threads(const fs::path& root, const std::string& name, UsageCounters& into) {
  std::error_code failure;
  fs::directory_iterator task(root / "proc/self/task", failure);
  for (; !failure && task != fs::directory_iterator(); task.increment(failure)) {
    const auto used = cpu_of_thread(task->path(), name);
    if (!used) continue;
    into.thread_cpu_s = into.thread_cpu_s.value_or(0) + *used;
    ++into.threads;
  }
}

}  // namespace

UsageCounters read_usage(const std::string& thread_name, const fs::path& root) {
  UsageCounters now;
  const Cgroups groups = read_cgroups(root, "cpu");
  now.cpu_stalled_s = stalled(root, groups, "cpu");
  now.io_stalled_s = stalled(root, groups, "io");
  now.memory_stalled_s = stalled(root, groups, "memory");
  read_throttling(groups, now);
  read_threads(root, thread_name, now);
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    now.major_faults = used.ru_majflt;
    now.involuntary_switches = used.ru_nivcsw;
  }
  return now;
}

std::optional<double> memory_taken(const fs::path& root) {
  const std::uint64_t limit = memory_limit(root);
  if (limit == 0) return std::nullopt;
  const std::uint64_t left = std::min(available_memory(root), limit);
  return 1 - static_cast<double>(left) / static_cast<double>(limit);
}

}  // namespace trainctl
