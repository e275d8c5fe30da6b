#include "launch/supervise/failure_evidence.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <ranges>
#include <utility>
#include <vector>

namespace trainctl::launch {

fs::path error_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.error.json", rank);
}

void write_error_file(const fs::path& log_folder, int rank, const Error& error) {
  Json document;
  document["schema"] = "trainctl.rank_error/2";
  document["rank"] = rank;
  document["kind"] = error.exit_code();
  document["message"] = error.what();
  document["where"] = fmt::format("{}:{}", error.where().file_name(), error.where().line());
  document["time"] = utc_timestamp();
  write_atomically(error_path(log_folder, rank), to_pretty(document) + "\n");
}

std::optional<events::Failed> read_error_file(const fs::path& log_folder, int rank) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  std::string text;
  try {
    text = read_file(error_path(log_folder, rank), kMaxBytes, ReadFailure::resource);
  } catch (const Error&) {
    return std::nullopt;
  }
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return std::nullopt;
  const Json kind = document.value("kind", Json());
  const Json message = document.value("message", Json());
  if (!kind.is_number_integer() || !message.is_string()) return std::nullopt;
  events::Failed failed;
  failed.rank = rank;
  failed.kind = kind.get<int>();
  failed.message = message.get<std::string>();
  return failed;
}

void remove_error_file(const fs::path& log_folder, int rank) {
  std::error_code ignored;
  fs::remove(error_path(log_folder, rank), ignored);
}

fs::path log_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.log", rank);
}

std::string log_tail(const fs::path& log) {
  constexpr std::streamoff kMaxBytes = 16 << 10;
  constexpr std::size_t kMaxLines = 20;
  struct stat info {};
  if (::stat(log.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  std::ifstream file(log, std::ios::binary);
  const bool cut = info.st_size > kMaxBytes;
  if (cut) file.seekg(info.st_size - kMaxBytes);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(printable(line));
    if (lines.size() > kMaxLines) lines.pop_front();
  }
  if (cut && lines.size() < kMaxLines && lines.size() > 1)
    lines.pop_front();  // the first line is incomplete
  return fmt::format("{}", fmt::join(lines, "\n"));
}

namespace {

// Reads "oom_kill 3" among other lines.
std::optional<std::uint64_t> read_oom_kills(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

// Reads the innermost group that has the file: in a container the path may be that of the host.
std::optional<std::uint64_t> innermost_count(const std::vector<fs::path>& groups,
                                             const char* name) {
  for (const fs::path& group : std::views::reverse(groups)) {
    if (const auto count = read_oom_kills(group / name)) return count;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> oom_kills(const fs::path& root) {
  const Cgroups groups = read_cgroups(root, "memory");
  if (const auto count = innermost_count(groups.v1, "memory.oom_control")) return count;
  if (const auto count = innermost_count(groups.v2, "memory.events")) return count;
  return read_oom_kills(root / "proc/vmstat");
}

OomKillTracker::OomKillTracker(fs::path root)
    : root_(std::move(root)), explained_(oom_kills(root_)) {}

std::string OomKillTracker::explain_kill(double peak_bytes) {
  const auto now = oom_kills(root_);
  if (explained_ && now && *now > *explained_) {
    ++*explained_;
    return fmt::format(" (out of memory: the kernel's oom_kill counter increased; peak memory {})",
                       human_bytes(peak_bytes));
  }
  return fmt::format(
      " from another process or the kernel (possibly out of memory: peak memory {}; see `dmesg`)",
      human_bytes(peak_bytes));
}

}  // namespace trainctl::launch
