#pragma once

#include "data/image/codec/decoder.hpp"
#include "data/image/image.hpp"

namespace trainctl::data {

/// JPEG by libjpeg-turbo: baseline and progressive; gray, YCbCr, RGB, CMYK and YCCK (the latter two
/// as Adobe stores them: inverted). As torchvision's ImageFolder and decode_image() do, it leaves
/// an EXIF orientation alone. Every warning of the library is an error, and the file must have its
/// end marker. Only the part of the box is transformed, upsampled and converted, with the same
/// bytes as from the whole image.
std::unique_ptr<FormatDecoder> make_jpeg_decoder(const DecodeLimits& limits);

/// The scans a JPEG file holds, without decoding any; it stops counting above `most`.
std::int64_t count_jpeg_scans(std::span<const std::byte> file, std::int64_t most);

/// A JPEG file of a gray or RGB image: baseline, 4:2:0, optimized Huffman tables, as libjpeg's
/// `quality` (1-100) has it.
std::vector<std::byte> write_jpeg(const ImageView& image, int quality);

/// The same picture as a baseline file, to the last coefficient and with its application markers;
/// empty where the file is baseline already. Throws Error(data) where it is damaged.
std::vector<std::byte> baseline_jpeg(std::span<const std::byte> file);

/// Whether the first bytes are a JPEG's.
bool is_jpeg(std::span<const std::byte> file);

}  // namespace trainctl::data
