#include "data/image/opencv.hpp"

#include "base/error.hpp"
#include "base/module.hpp"
#include "data/image/extents.hpp"
#include "data/image/opencv/module.hpp"

#include <cstring>
#include <limits>

namespace trainctl::data {
namespace {

OpencvDecode load() {
  const char* cause = nullptr;
  void* symbol = find_in_module(kOpencvLibrary, kOpencvSymbol, cause);
  ENSURE(resource, symbol != nullptr,
         "WebP, BMP and TIFF files need OpenCV, and {} cannot be loaded: {}", kOpencvLibrary,
         cause);
  return reinterpret_cast<OpencvDecode>(symbol);
}

OpencvDecode opencv_decode() {
  static const OpencvDecode decode = load();
  return decode;
}

}  // namespace

ImageShape OpencvDecoder::open(std::span<const std::byte> file) {
  file_ = {};
  ENSURE(data, file.size() <= std::size_t{std::numeric_limits<int>::max()},
         "the image file has {} bytes; at most {}", file.size(), std::numeric_limits<int>::max());
  const auto [height, width] = header_extents(file, limits_);
  shape_ = {height, width, 3};
  opencv_decode();
  file_ = file;
  return shape_;
}

void OpencvDecoder::decode(const Box& box, Reading, std::uint8_t* out) {
  ASSERT(!file_.empty());
  const bool whole = box == Box{0, 0, shape_.height, shape_.width};
  if (!whole) pixels_.resize(shape_.bytes());
  std::uint8_t* pixels = whole ? out : pixels_.data();
  ENSURE(data, opencv_decode()({file_.data(), file_.size(), shape_.height, shape_.width, pixels}),
         "damaged image: OpenCV cannot decode it");
  if (whole) return;
  const ImageView part = ImageView(pixels, shape_).window(box);
  for (std::int64_t y = 0; y < box.height; ++y, out += part.row_bytes()) {
    std::memcpy(out, part.row(y), part.row_bytes());
  }
}

}  // namespace trainctl::data
