#include "base/machine/resource_usage.hpp"

#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

// The line is "some avg10=0.00 avg60=0.00 avg300=0.00 total=309894680", in microseconds.
std::optional<double> stalled_in(const fs::path& file) {
  constexpr std::string_view kTotal = "total=";
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("some ")) continue;
    const std::size_t at = line.rfind(kTotal);
    if (at == std::string::npos) return std::nullopt;
    const auto total =
        parse_number<std::uint64_t>(std::string_view(line).substr(at + kTotal.size()));
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
    if (name != key) continue;
    const auto count = parse_number<std::int64_t>(value);
    return count && *count >= 0 ? count : std::nullopt;
  }
  return std::nullopt;
}

// Each group has its own quota, so the group that was throttled most often counts.
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

void read_threads(const fs::path& root, const std::string& name, UsageCounters& into) {
  for_each_entry(root / "proc/self/task", [&](const fs::path& task) {
    const auto thread = read_process_stat(task);
    if (!thread || thread->name != name) return;
    into.thread_cpu_s = into.thread_cpu_s.value_or(0) + thread->cpu_s;
    ++into.threads;
  });
}

constexpr double kShortestSpan = 0.1;  // seconds
constexpr double kHardlyIdle = 0.10;   // of the time of the cores

/// Returns the number in a line "cpu3 ..."; -1 for the sum and for other lines.
int core_of(const std::string& name) {
  constexpr std::size_t kPrefix = 3;
  const bool is_core = name.size() > kPrefix && name.starts_with("cpu") &&
                       name.find_first_not_of("0123456789", kPrefix) == std::string::npos;
  return is_core && name.size() < 10 ? std::stoi(name.substr(kPrefix)) : -1;
}

/// Adds the user, nice, system, idle, iowait, irq, softirq and steal times of one core.
bool add_core(std::istringstream& line, CoreTimes& times) {
  std::array<double, 8> ticks{};
  for (double& each : ticks) {
    if (!(line >> each)) return false;
  }
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  times.busy_s += tick * (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]);
  times.idle_s += tick * (ticks[3] + ticks[4]);
  times.stolen_s += tick * ticks[7];
  return true;
}

double own_s() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The first two numbers of a thread's schedstat file are its run and wait time in nanoseconds.
std::map<std::string, ThreadTimes> thread_times(const fs::path& root) {
  std::map<std::string, ThreadTimes> threads;
  for_each_entry(root / "proc/self/task", [&](const fs::path& thread) {
    std::ifstream in(thread / "schedstat");
    double run_ns = 0;
    double wait_ns = 0;
    if (in >> run_ns >> wait_ns) threads[thread.filename()] = {1e-9 * run_ns, 1e-9 * wait_ns};
  });
  return threads;
}

/// Computes the share over the threads that exist at the end. A thread without an earlier reading
/// was started in between.
std::optional<double> waited_share(const CoreTimes& before, const CoreTimes& now) {
  double run_s = 0;
  double wait_s = 0;
  for (const auto& [name, times] : now.threads) {
    const auto earlier = before.threads.find(name);
    const ThreadTimes since = earlier == before.threads.end() ? ThreadTimes{} : earlier->second;
    run_s += std::max(times.run_s - since.run_s, 0.0);
    wait_s += std::max(times.wait_s - since.wait_s, 0.0);
  }
  if (!(run_s + wait_s > 0)) return std::nullopt;
  return wait_s / (run_s + wait_s);
}

bool shares_cores(pid_t pid, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(pid, sizeof set, &set) != 0) return true;
  return std::ranges::any_of(cores, [&](int core) { return CPU_ISSET(core, &set) != 0; });
}

/// Returns the parent and the siblings of this process.
std::set<pid_t> relatives(const fs::path& root) {
  const pid_t parent = ::getppid();
  std::set<pid_t> found;
  if (parent <= 1) return found;
  found.insert(parent);
  const std::string name = std::to_string(parent);
  std::ifstream in(root / "proc" / name / "task" / name / "children");
  for (pid_t pid = 0; in >> pid;) found.insert(pid);
  found.erase(::getpid());
  return found;
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

std::optional<CoreTimes> read_core_times(const fs::path& root) {
  const std::vector<int> cores = allowed_cores();
  CoreTimes times;
  std::ifstream in(root / "proc/stat");
  std::size_t found = 0;
  for (std::string text; std::getline(in, text) && text.starts_with("cpu");) {
    std::istringstream line(text);
    std::string name;
    line >> name;
    if (std::ranges::find(cores, core_of(name)) == cores.end()) continue;
    if (add_core(line, times)) ++found;
  }
  if (found == 0 || found != cores.size()) return std::nullopt;
  times.run_s = own_s();
  times.threads = thread_times(root);
  for (const pid_t pid : relatives(root)) {
    if (!shares_cores(pid, cores)) continue;
    const auto process = read_process_stat(root / "proc" / std::to_string(pid));
    if (process) times.run_s += process->cpu_s;
  }
  return times;
}

std::optional<CoreUse> core_use(const CoreTimes& before, const CoreTimes& now) {
  const double busy_s = now.busy_s - before.busy_s;
  const double stolen_s = std::max(now.stolen_s - before.stolen_s, 0.0);
  const double idle_s = std::max(now.idle_s - before.idle_s, 0.0);
  const double total_s = busy_s + stolen_s + idle_s;
  if (!(busy_s >= 0) || total_s < kShortestSpan) return std::nullopt;
  const double outside_s = std::max(busy_s - std::max(now.run_s - before.run_s, 0.0), 0.0);
  return CoreUse{outside_s / total_s, stolen_s / total_s, idle_s / total_s,
                 waited_share(before, now)};
}

double CoreUseMeter::taken() const {
  const auto now = read_core_times();
  const auto use = before_ && now ? core_use(*before_, *now) : std::nullopt;
  return use && is_contended(*use) ? use->outside + use->stolen : 0;
}

bool is_contended(const CoreUse& use) {
  if (use.stolen >= kNotableOutsideShare) return true;
  if (use.outside + use.stolen < kNotableOutsideShare) return false;
  return use.waited ? *use.waited >= kNotableOutsideShare : use.idle <= kHardlyIdle;
}

}  // namespace trainctl
