#pragma once

#include "data/image/codec/decoder.hpp"

#include <filesystem>

namespace trainctl::data {

/// Returns a PNG decoder on libpng: gray, RGB and palette, 1 to 16 bits, with or without alpha,
/// also interlaced. Like Pillow's convert("RGB"), it drops alpha and keeps the upper 8 of 16 bits,
/// also for 16-bit gray, which Pillow clips to white. Warnings of the library and wrong checksums
/// are errors, and the end chunk is required.
std::unique_ptr<FormatDecoder> make_png_decoder(const DecodeLimits& limits);

/// Atomically writes an image of 1 or 3 channels as a PNG file. Throws Error(resource).
void write_png(const std::filesystem::path& path, const ImageView& image);

/// Returns the content of such a file.
std::string png_of(const ImageView& image);

}  // namespace trainctl::data
