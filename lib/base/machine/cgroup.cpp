#include "base/machine/cgroup.hpp"

#include "base/strings.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_down_to(const fs::path& mount, const std::string& path) {
  std::vector<fs::path> folders{mount};
  for (const fs::path& part : fs::path(path).relative_path())
    folders.push_back(folders.back() / part);
  return folders;
}

}  // namespace

Cgroups read_cgroups(const fs::path& root, std::string_view controller) {
  Cgroups found;
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" is v2; "4:cpu,cpuacct:/path" is v1.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) found.v2 = folders_down_to(mount, path);
    const std::vector<std::string> controllers = split(names, ',');
    if (std::ranges::find(controllers, controller) != controllers.end())
      found.v1 = folders_down_to(mount / controller, path);
  }
  return found;
}

}  // namespace trainctl
