#include "base/error.hpp"
#include "data/image/codec/opencv.hpp"

namespace trainctl::data {
namespace {

class NoDecoder final : public FormatDecoder {
 public:
  ImageShape open(std::span<const std::byte>) override {
    throw Error(ErrorKind::config,
                "WebP, BMP and TIFF files need a build with OpenCV (Debian: "
                "libopencv-imgcodecs-dev)\nhint: convert the image to PNG or JPEG, or rebuild "
                "trainctl with OpenCV");
  }
  void decode(const Box&, Reading, std::uint8_t*) override { ASSERT(false); }
};

}  // namespace

std::unique_ptr<FormatDecoder> make_opencv_decoder(const DecodeLimits&) {
  return std::make_unique<NoDecoder>();
}

}  // namespace trainctl::data
