#include "base/machine/procfs.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>

namespace trainctl {

std::string first_line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

double ProcessStat::age_s() const {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         static_cast<double>(start_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// In "12 (any name) S 1 ..." the name may contain spaces, parentheses and line breaks, so the
// fields are counted from the last parenthesis.
std::optional<ProcessStat> read_process_stat(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  // Stream buffer iterators would throw if the process ends between open and read.
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || open >= close) return std::nullopt;
  ProcessStat process{.name = text.substr(open + 1, close - open - 1)};
  std::istringstream fields(text.substr(close + 1));
  std::string skipped;
  const auto skip = [&](int count) {
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  fields >> process.state >> process.parent;
  skip(9);  // to field 13
  double user_ticks = 0;
  double kernel_ticks = 0;
  std::uint64_t rss_pages = 0;
  fields >> user_ticks >> kernel_ticks;
  skip(6);  // to field 21
  fields >> process.start_ticks >> skipped >> rss_pages;
  if (!fields) return std::nullopt;
  process.cpu_s = (user_ticks + kernel_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  process.rss_bytes = rss_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return process;
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  return read_process_stat(std::filesystem::path("/proc") / std::to_string(pid));
}

}  // namespace trainctl
