#include "launch/supervise/memory_watch.hpp"

#include "base/machine/cgroup.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <fstream>
#include <ranges>
#include <utility>
#include <vector>

namespace trainctl::launch {
namespace {

namespace fs = std::filesystem;

// "oom_kill 3" among other lines.
std::optional<std::uint64_t> counter(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

// Of the innermost group that has one: in a container the path may be that of the host.
std::optional<std::uint64_t> innermost(const std::vector<fs::path>& groups, const char* name) {
  for (const fs::path& group : std::views::reverse(groups)) {
    if (const auto count = counter(group / name)) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> memory_kills(const fs::path& root) {
  const Cgroups groups = read_cgroups(root, "memory");
  if (const auto count = innermost(groups.v1, "memory.oom_control")) return count;
  if (const auto count = innermost(groups.v2, "memory.events")) return count;
  return counter(root / "proc/vmstat");
}

MemoryWatch::MemoryWatch(fs::path root) : root_(std::move(root)), explained_(memory_kills(root_)) {}

std::string MemoryWatch::explain_kill(double peak_bytes) {
  const auto now = memory_kills(root_);
  if (explained_ && now && *now > *explained_) {
    ++*explained_;
    return fmt::format(" for want of memory: the kernel's oom_kill counter rose; its peak was {}",
                       human_bytes(peak_bytes));
  }
  return fmt::format(
      ", sent by another process or by the kernel (perhaps out of memory: its peak was {}; see "
      "`dmesg`)",
      human_bytes(peak_bytes));
}

}  // namespace trainctl::launch
