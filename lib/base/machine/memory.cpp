#include "base/machine/cgroup.hpp"
#include "base/machine/machine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// Control groups v1 say "no limit" with the largest multiple of the page size.
constexpr std::uint64_t kNoLimitV1 = std::uint64_t{1} << 60;

/// The number after `key` in a file of "key value" lines; with an empty key the first number of the
/// file.
std::optional<std::uint64_t> read_number(const fs::path& file, const std::string& key = {}) {
  std::ifstream in(file);
  std::string word;
  while (key.empty() || in >> word) {
    if (!key.empty() && word != key) continue;
    std::uint64_t value = 0;
    if (in >> value) return value;
    return std::nullopt;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // page cache counts as used, but gives way
};
constexpr GroupFiles kV2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::uint64_t left_in(const fs::path& group, const GroupFiles& files) {
  const auto limit = read_number(group / files.limit);
  if (!limit || *limit >= kNoLimitV1) return kUnlimited;
  const std::uint64_t used = read_number(group / files.usage).value_or(0);
  const std::uint64_t cache = read_number(group / "memory.stat", files.reclaimable).value_or(0);
  const std::uint64_t held = used - std::min(cache, used);
  return *limit - std::min(held, *limit);
}

std::uint64_t limit_of(const fs::path& group, const GroupFiles& files) {
  const auto limit = read_number(group / files.limit);
  return limit && *limit < kNoLimitV1 ? *limit : kUnlimited;
}

}  // namespace

std::uint64_t memory_limit(const fs::path& root) {
  const auto all_kib = read_number(root / "proc/meminfo", "MemTotal:");
  std::uint64_t least = all_kib ? *all_kib * 1024 : kUnlimited;
  const Cgroups groups = read_cgroups(root, "memory");
  for (const fs::path& group : groups.v2) least = std::min(least, limit_of(group, kV2));
  for (const fs::path& group : groups.v1) least = std::min(least, limit_of(group, kV1));
  return least == kUnlimited ? 0 : least;
}

std::uint64_t available_memory(const fs::path& root) {
  const auto free_kib = read_number(root / "proc/meminfo", "MemAvailable:");
  std::uint64_t least = free_kib ? *free_kib * 1024 : kUnlimited;
  const Cgroups groups = read_cgroups(root, "memory");
  for (const fs::path& group : groups.v2) least = std::min(least, left_in(group, kV2));
  for (const fs::path& group : groups.v1) least = std::min(least, left_in(group, kV1));
  return least;
}

}  // namespace trainctl
