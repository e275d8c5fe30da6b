#pragma once

#include "data/image/image.hpp"

#include <filesystem>

namespace trainctl::data {

/// Writes an image of 1 (grey) or 3 (RGB) channels as a PNG file, all of it or nothing. Throws
/// Error(resource).
void write_png(const std::filesystem::path& path, const ImageView& image);

}  // namespace trainctl::data
