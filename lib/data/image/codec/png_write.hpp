#pragma once

#include "data/image/image.hpp"

#include <filesystem>
#include <string>

namespace trainctl::data {

/// Writes an image of 1 (grey) or 3 (RGB) channels as a PNG file, all of it or nothing. Throws
/// Error(resource).
void write_png(const std::filesystem::path& path, const ImageView& image);

/// The bytes of such a file.
std::string png_of(const ImageView& image);

}  // namespace trainctl::data
