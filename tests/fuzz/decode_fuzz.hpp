#pragma once

#include "base/error.hpp"
#include "data/image/codec/decoder.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace trainctl::data::fuzz {

/// Returns the pixels, or nothing if the file is refused as damaged; any other error aborts.
inline std::optional<std::vector<std::uint8_t>> pixels(FormatDecoder& decoder,
                                                       std::span<const std::byte> file, Box box,
                                                       Reading reading) {
  try {
    const ImageShape shape = decoder.open(file);
    if (box.height == 0) box = {0, 0, shape.height, shape.width};
    std::vector<std::uint8_t> out(static_cast<std::size_t>(box.height * box.width) * 3);
    decoder.decode(box, reading, out.data());
    return out;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) std::abort();
    return std::nullopt;
  }
}

/// Decodes or refuses any bytes. A crop must have the pixels of the whole image and be refused if
/// the whole image is. The last four bytes choose the crop.
template <auto kMakeDecoder>
int decode(const std::uint8_t* data, std::size_t size) {
  static const auto made =
      kMakeDecoder({.pixels = 1 << 16, .scans = 20, .scanned_pixels = 1 << 18});
  FormatDecoder& decoder = *made;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto whole = pixels(decoder, file, {}, Reading::whole_file);
  if (size < 4) return 0;
  ImageShape shape;
  try {
    shape = decoder.open(file);
  } catch (const Error&) {
    return whole ? (std::abort(), 0) : 0;
  }
  Box box;
  box.top = data[size - 4] % shape.height;
  box.left = data[size - 3] % shape.width;
  box.height = 1 + data[size - 2] % (shape.height - box.top);
  box.width = 1 + data[size - 1] % (shape.width - box.left);
  const auto part = pixels(decoder, file, box, Reading::whole_file);
  const auto early = pixels(decoder, file, box, Reading::needed_part);
  if (part.has_value() != whole.has_value() || (part && (!early || *early != *part))) std::abort();
  const auto bytes = static_cast<std::size_t>(box.width) * 3;
  for (std::int64_t y = 0; whole && y < box.height; ++y) {
    const auto* expected = whole->data() + ((box.top + y) * shape.width + box.left) * 3;
    if (std::memcmp(expected, part->data() + static_cast<std::size_t>(y) * bytes, bytes) != 0)
      std::abort();
  }
  return 0;
}

}  // namespace trainctl::data::fuzz
