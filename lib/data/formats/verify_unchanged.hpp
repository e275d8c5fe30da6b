#pragma once

#include "data/formats/image_files.hpp"

#include <filesystem>

namespace trainctl::data {

/// Whether every file beneath `root` has the length and time of change that it was listed with.
/// Looks at many files at once: each look at a file of a distant disk waits for it.
bool is_as_listed(const std::filesystem::path& root, const ImageFiles& files);

}  // namespace trainctl::data
