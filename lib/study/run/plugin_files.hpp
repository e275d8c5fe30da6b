#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <vector>

namespace trainctl::study {

/// The files of these plug-ins, which are loaded, with the XXH3-64 of their bytes: what a run was
/// made with. Throws Error(config) for a file that cannot be read.
Json plugin_files(const std::vector<fs::path>& libraries);

}  // namespace trainctl::study
