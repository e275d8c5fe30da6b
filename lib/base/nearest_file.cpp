#include "base/nearest_file.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;
constexpr int kDeepest = 3;

/// The folder of `path`, or the closest folder above it that exists.
fs::path existing_folder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = path.parent_path();
  while (!folder.empty() && !fs::is_directory(folder, ignored)) {
    const fs::path above = folder.parent_path();
    if (above == folder) break;
    folder = above;
  }
  return folder.empty() ? fs::path(".") : folder;
}

/// The files below `folder` by name; of one name the first that is found.
std::map<std::string, fs::path> files_below(const fs::path& folder, int depth) {
  std::map<std::string, fs::path> files;
  std::error_code failure;
  std::size_t seen = 0;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied,
                                      failure);
  for (const fs::recursive_directory_iterator end; !failure && at != end && seen < kMostFiles;
       at.increment(failure), ++seen) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored) && (at.depth() >= depth || name.starts_with('.')))
      at.disable_recursion_pending();
    if (at->is_regular_file(ignored)) files.emplace(name, at->path().lexically_normal());
  }
  return files;
}

std::optional<fs::path> nearest_in(const std::map<std::string, fs::path>& files,
                                   const std::string& name) {
  if (const auto same = files.find(name); same != files.end()) return same->second;
  std::vector<std::string> names;
  for (const auto& [one, path] : files) names.push_back(one);
  const std::optional<std::string> found = nearest(name, names);
  return found ? std::optional(files.at(*found)) : std::nullopt;
}

}  // namespace

std::string nearest_file_hint(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.empty()) return "";
  const fs::path folder = existing_folder(path);
  std::optional<fs::path> found = nearest_in(files_below(folder, 0), name);
  if (!found) found = nearest_in(files_below(folder, kDeepest), name);
  return found ? fmt::format("did you mean '{}'?", printable(found->string())) : "";
}

}  // namespace trainctl
