#pragma once

#include "data/image/golden_pixels.hpp"

#include <jpeglib.h>

#include <cmath>
#include <cstddef>
#include <cstdio>  // jpeglib.h requires it
#include <cstdlib>
#include <vector>

namespace trainctl::data::testing {

using File = std::vector<std::byte>;

struct JpegKind {
  int horizontal = 2;  // luma samples per chroma sample
  int vertical = 2;
  bool progressive = false;
  J_COLOR_SPACE colors = JCS_YCbCr;
  int quality = 90;
};

/// Returns a picture similar to a photograph: smooth shades with some noise.
inline Picture shades(const ImageShape& shape) {
  Picture made = noise(shape);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(made.pixels.size()); ++i) {
    const auto x = static_cast<double>(i / shape.channels % shape.width);
    const auto y = static_cast<double>(i / shape.channels / shape.width);
    const double shade =
        128 + 80 * std::sin(x / 9 + static_cast<double>(i % shape.channels)) * std::cos(y / 7);
    std::uint8_t& pixel = made.pixels[static_cast<std::size_t>(i)];
    pixel = static_cast<std::uint8_t>(shade + pixel / 6.0);
  }
  return made;
}

/// Encodes the picture; its channels (1, 3 or 4) determine the color space.
inline File jpeg_file(const Picture& picture, const JpegKind& kind = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(picture.shape.width);
  info.image_height = static_cast<JDIMENSION>(picture.shape.height);
  info.input_components = static_cast<int>(picture.shape.channels);
  info.in_color_space = picture.shape.channels == 1   ? JCS_GRAYSCALE
                        : picture.shape.channels == 3 ? JCS_RGB
                                                      : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (picture.shape.channels > 1) {
    jpeg_set_colorspace(&info, kind.colors);
    info.comp_info[0].h_samp_factor = kind.horizontal;
    info.comp_info[0].v_samp_factor = kind.vertical;
  }
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(picture.view().row(info.next_scanline));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  File file(bytes, bytes + size);
  std::free(memory);
  return file;
}

}  // namespace trainctl::data::testing
