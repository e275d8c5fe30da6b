#pragma once

#include <filesystem>
#include <string>

namespace trainctl {

/// Returns "did you mean 'PATH'?" with the existing file whose name is closest to that of the
/// missing `path`: in its folder, else in the folders below. Empty where no file is close.
std::string nearest_file_hint(const std::filesystem::path& path);

}  // namespace trainctl
