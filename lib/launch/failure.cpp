#include "launch/failure.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <sstream>
#include <string_view>

namespace trainctl::launch {
namespace {

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

// Lines of /proc/self/cgroup: "4:memory:/path" (version 1) or "0::/path" (version 2).
std::optional<std::uint64_t> cgroup_counter(const fs::path& root, std::string_view line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const fs::path group = fs::path(line.substr(second + 1)).relative_path();
  if (controllers == "memory")
    return counter(root / "sys/fs/cgroup/memory" / group / "memory.oom_control");
  if (controllers.empty()) return counter(root / "sys/fs/cgroup" / group / "memory.events");
  return std::nullopt;
}

}  // namespace

fs::path error_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.error.json", rank);
}

void write_error_file(const fs::path& log_folder, int rank, const Error& error) {
  Json document;
  document["schema"] = "trainctl.rank_error/1";
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
    lines.pop_front();  // it begins in the middle
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::optional<std::uint64_t> memory_kills(const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (const auto count = cgroup_counter(root, line)) return count;
  }
  return counter(root / "proc/vmstat");
}

}  // namespace trainctl::launch
