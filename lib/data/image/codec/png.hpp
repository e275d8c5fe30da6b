#pragma once

#include "data/image/codec/decoder.hpp"
#include "data/image/image.hpp"

#include <filesystem>
#include <string>

namespace trainctl::data {

/// PNG by libpng: gray, RGB and palette of 1 to 16 bits, with or without alpha, also interlaced. As
/// Pillow's convert("RGB"): of 16 bits the upper 8 count, and alpha is dropped; but gray of 16 bits
/// is treated likewise, which Pillow clips to white. Every warning of the library and every wrong
/// checksum is an error, and the file must have its end chunk.
std::unique_ptr<FormatDecoder> make_png_decoder(const DecodeLimits& limits);

/// Writes an image of 1 or 3 channels as a PNG file, all of it or nothing. Throws Error(resource).
void write_png(const std::filesystem::path& path, const ImageView& image);

/// The bytes of such a file.
std::string png_of(const ImageView& image);

}  // namespace trainctl::data
