#include "study/folder/unfinished.hpp"

#include "base/error.hpp"
#include "checkpoint/store.hpp"

#include <unistd.h>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace trainctl::study {
namespace {

bool is_marked(std::string_view name, std::string_view mark) {
  const std::size_t at = name.rfind(mark);
  if (!name.starts_with('.') || at == std::string_view::npos || at == 0) return false;
  const std::string_view pid = name.substr(at + mark.size());
  const bool is_number = !pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos;
  return is_number && pid != std::to_string(::getpid());
}

// As write_atomically and ReservedFile name what they have not finished.
bool is_temporary(std::string_view name) {
  return is_marked(name, ".tmp.") || is_marked(name, ".reserved.");
}

void remove_temporaries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_temporary(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& path : found) ::unlink(path.c_str());
}

}  // namespace

void remove_unfinished(const fs::path& run_dir) {
  remove_temporaries(run_dir);
  try {
    checkpoint::Store(run_dir / "checkpoints").remove_unfinished();
  } catch (const Error&) {  // the next save tries again
  }
}

}  // namespace trainctl::study
