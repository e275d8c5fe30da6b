#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace trainctl {

/// The control groups that this process lies in, from the mount point down to its own: a limit of
/// any of them binds it. Where a system has both versions, both lists are filled.
struct Cgroups {
  std::vector<std::filesystem::path> v2;
  std::vector<std::filesystem::path> v1;  // of the controller that was asked for
};

/// `controller` is that of version 1: "memory", "cpu". `root` is "/" outside tests.
Cgroups read_cgroups(const std::filesystem::path& root, std::string_view controller);

}  // namespace trainctl
