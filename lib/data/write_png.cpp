#include "data/write_png.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

#include <zlib.h>

#include <string>
#include <string_view>

namespace trainctl::data {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string chunk(std::string_view type, std::string_view content) {
  const std::string body = std::string(type) + std::string(content);
  const auto checksum =
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + body +
         big_endian(static_cast<std::uint32_t>(checksum));
}

std::string header(const ImageShape& shape) {
  constexpr char kGrey = 0;
  constexpr char kRgb = 2;
  std::string content = big_endian(static_cast<std::uint32_t>(shape.width)) +
                        big_endian(static_cast<std::uint32_t>(shape.height));
  content += '\x08';  // bits a channel
  content += shape.channels == 1 ? kGrey : kRgb;
  content += std::string(3, '\0');  // deflate, the standard filters, not interlaced
  return content;
}

std::string compressed(const ImageView& image) {
  std::string rows;
  for (std::int64_t y = 0; y < image.shape.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(image.row(y)), image.row_bytes());
  }
  auto size = ::compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  const int status =
      ::compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                  reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()), 6);
  ENSURE(resource, status == Z_OK, "cannot compress an image: zlib returned {}", status);
  packed.resize(size);
  return packed;
}

}  // namespace

void write_png(const std::filesystem::path& path, const ImageView& image) {
  ASSERT(image.shape.fixed() && (image.shape.channels == 1 || image.shape.channels == 3));
  write_atomically(path, "\x89PNG\r\n\x1a\n" + chunk("IHDR", header(image.shape)) +
                             chunk("IDAT", compressed(image)) + chunk("IEND", ""));
}

}  // namespace trainctl::data
