#pragma once

#include "data/fakes.hpp"
#include "data/image/codec/decoder.hpp"
#include "data/image/jpeg_files.hpp"

#include <string>

namespace trainctl::data::testing {

inline Picture decoded(ImageDecoder& decoder, const File& file, Box box, Reading reading) {
  decoder.open(file);
  Picture out{{box.height, box.width, 3}, {}};
  out.pixels.resize(out.shape.bytes());
  decoder.decode(box, reading, out.pixels.data());
  return out;
}

inline Picture decoded(const File& file) {
  ImageDecoder decoder;
  const ImageShape shape = decoder.open(file);
  return decoded(decoder, file, {0, 0, shape.height, shape.width}, Reading::whole_file);
}

/// Returns the error of decoding the file, or an empty string.
inline std::string fault_of(const File& file) {
  return failure_of([&] { decoded(file); });
}

inline File file_of(const Json& golden) {
  const auto bytes = from_hex(golden["file"].get<std::string>());
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

/// Returns the file of that name in tests/golden/torch/decoded.json.
inline File golden_file(const std::string& name) {
  for (const Json& golden : golden_cases("decoded", "files")) {
    if (golden["name"] == name) return file_of(golden);
  }
  return {};
}

inline bool with_opencv() {
  static const bool with = fault_of(golden_file("bmp rgb")).empty();
  return with;
}

inline File cut(File file, std::size_t size) {
  file.resize(size);
  return file;
}

}  // namespace trainctl::data::testing
