#include "base/error.hpp"
#include "data/image/codec/opencv.hpp"

namespace trainctl::data {

ImageShape OpencvDecoder::open(std::span<const std::byte>) {
  throw Error(ErrorKind::config,
              "WebP, BMP and TIFF files need a build with OpenCV (Debian: "
              "libopencv-imgcodecs-dev); convert the image to "
              "PNG or JPEG, or build trainctl again");
}

void OpencvDecoder::decode(const Box&, Reading, std::uint8_t*) { ASSERT(false); }

}  // namespace trainctl::data
