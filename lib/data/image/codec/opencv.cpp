#include "data/image/codec/opencv.hpp"

#include "base/error.hpp"
#include "base/shared_library.hpp"
#include "data/image/codec/opencv_symbols.hpp"
#include "data/image/codec/upright.hpp"

#include <cstdlib>
#include <limits>
#include <string>

namespace trainctl::data {
namespace {

// OpenCV's own limit, which it reads when it is loaded, stands behind what the headers claim.
OpencvDecode load() {
  ::setenv("OPENCV_IO_MAX_IMAGE_PIXELS", std::to_string(kMostPixels).c_str(), 1);
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
  claim_ = header_claim(file, limits_);
  const Extents upright = upright_extents(claim_.stored, claim_.orientation);
  shape_ = {upright.height, upright.width, 3};
  opencv_decode();
  file_ = file;
  return shape_;
}

/// The file, or a copy that says its pixels are plain: some versions of OpenCV turn a TIFF, and
/// libtiff multiplies by alpha.
std::span<const std::byte> OpencvDecoder::plain_file() {
  if (claim_.not_plain_at == std::array<std::size_t, 2>{}) return file_;
  copy_.assign(file_.begin(), file_.end());
  const bool little = copy_[0] == std::byte{'I'};
  for (const std::size_t at : claim_.not_plain_at) {
    if (at == 0) continue;
    copy_[at] = std::byte{little ? std::uint8_t{1} : std::uint8_t{0}};
    copy_[at + 1] = std::byte{little ? std::uint8_t{0} : std::uint8_t{1}};
  }
  return copy_;
}

void OpencvDecoder::decode(const Box& box, Reading, std::uint8_t* out) {
  ASSERT(!file_.empty());
  const auto [height, width] = claim_.stored;
  const ImageShape stored{height, width, 3};
  const bool whole = claim_.orientation == 1 && box == Box{0, 0, height, width};
  if (!whole) pixels_.resize(stored.bytes());
  std::uint8_t* pixels = whole ? out : pixels_.data();
  const std::span<const std::byte> file = plain_file();
  const OpencvVerdict verdict =
      opencv_decode()({file.data(), file.size(), claim_.is_tiff, height, width, pixels});
  ENSURE(data, verdict != OpencvVerdict::unsupported,
         "not supported: pixels of this kind in a TIFF; convert it to 8-bit RGB");
  ENSURE(data, verdict != OpencvVerdict::other_extents,
         "damaged image: OpenCV reads another size than the {}x{} pixels of its header", width,
         height);
  ENSURE(data, verdict == OpencvVerdict::sound, "damaged image: OpenCV cannot decode it");
  if (!whole) copy_upright(ImageView(pixels, stored), claim_.orientation, box, out);
}

}  // namespace trainctl::data
