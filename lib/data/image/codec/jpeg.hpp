#pragma once

#include "data/image/codec/decoder.hpp"

namespace trainctl::data {

/// Returns a JPEG decoder on libjpeg-turbo: baseline and progressive; gray, YCbCr, RGB, CMYK and
/// YCCK (the last two inverted, as Adobe stores them). Like torchvision's ImageFolder and
/// decode_image(), it ignores the EXIF orientation. Warnings of the library are errors, and the end
/// marker is required. It transforms, upsamples and converts only the requested box, with the same
/// bytes as a full decode.
std::unique_ptr<FormatDecoder> make_jpeg_decoder(const DecodeLimits& limits);

/// Returns the number of scans without decoding any; stops counting above `most`.
std::int64_t count_jpeg_scans(std::span<const std::byte> file, std::int64_t most);

/// Returns a baseline JPEG file of a gray or RGB image: 4:2:0, optimized Huffman tables, libjpeg's
/// `quality` (1-100).
std::vector<std::byte> write_jpeg(const ImageView& image, int quality);

/// Losslessly converts a file to baseline, with the same coefficients and application markers.
/// Returns an empty vector when the file already is baseline. Throws Error(data) when it is
/// damaged.
std::vector<std::byte> baseline_jpeg(std::span<const std::byte> file);

/// Returns whether the first bytes are the JPEG signature.
bool is_jpeg(std::span<const std::byte> file);

}  // namespace trainctl::data
