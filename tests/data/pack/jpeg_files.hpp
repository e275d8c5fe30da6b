#pragma once

#include "data/varied.hpp"

#include <jpeglib.h>

#include <cstdio>  // jpeglib.h requires it
#include <cstdlib>
#include <functional>
#include <string_view>

namespace trainctl::data::testing {

/// Returns a smooth picture with some texture.
inline std::vector<std::uint8_t> picture(const ImageShape& shape, int seed) {
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto x = static_cast<int>(i) % static_cast<int>(shape.width * shape.channels);
    const auto y = static_cast<int>(i) / static_cast<int>(shape.width * shape.channels);
    pixels[i] = static_cast<std::uint8_t>((x * 2 + y * 3 + seed * 40 + (x * y) % 7 * 5) & 255);
  }
  return pixels;
}

enum class Scans { baseline, progressive };

/// Encodes a typical JPEG file with a custom application marker.
inline std::vector<std::byte> jpeg_file(const ImageShape& shape, int seed, Scans scans,
                                        std::string_view app1 = "Exif") {
  std::vector<std::uint8_t> pixels = picture(shape, seed);
  jpeg_error_mgr errors;
  jpeg_compress_struct info;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(shape.width);
  info.image_height = static_cast<JDIMENSION>(shape.height);
  info.input_components = static_cast<int>(shape.channels);
  info.in_color_space = shape.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  if (scans == Scans::progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(app1.data()),
                    static_cast<unsigned>(app1.size()));
  for (std::int64_t y = 0; y < shape.height; ++y) {
    JSAMPROW row = pixels.data() + y * shape.width * shape.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> file(bytes, bytes + size);
  std::free(memory);
  return file;
}

struct Decoded {
  bool progressive = false;
  std::vector<std::uint8_t> pixels;
};

inline Decoded decode_jpeg(std::span<const std::byte> file) {
  jpeg_error_mgr errors;
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  Decoded out;
  out.progressive = info.progressive_mode != 0;
  jpeg_start_decompress(&info);
  const std::size_t row_bytes =
      std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components);
  out.pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = out.pixels.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return out;
}

/// Contains image files in memory. The label of a file is its index mod 2.
class FileDataset final : public Dataset, public ImageStore {
 public:
  explicit FileDataset(std::vector<std::vector<std::byte>> files) : files_(std::move(files)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(files_); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 2; }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % 2;
      std::memcpy(rows[1].data() + i * 8, &label, 8);
    }
  }
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return "files"; }
  [[nodiscard]] StoredImage read(std::int64_t index, std::vector<std::byte>&) const override {
    return {files_[static_cast<std::size_t>(index)], {}};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return fmt::format("a/{}.jpg", index);
  }

 private:
  std::vector<std::vector<std::byte>> files_;
  Layout layout_{{"image", Dtype::u8, {0, 0, 3}}, {"label", Dtype::i64, {}}};
};

}  // namespace trainctl::data::testing
