#include "base/error.hpp"
#include "data/image/codec/opencv.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

/// libFuzzer: our reader finds the same size of a WebP, BMP or TIFF as OpenCV, or the file is
/// refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto decoder = make_opencv_decoder({.pixels = 1 << 18});
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  if (size < 4) return 0;
  try {
    const ImageShape shape = decoder->open(file);
    std::vector<std::uint8_t> out(shape.bytes());
    decoder->decode({0, 0, shape.height, shape.width}, Reading::whole_file, out.data());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) std::abort();
    if (error.message().find("differs from the") != std::string::npos) std::abort();
  }
  return 0;
}
