#pragma once

#include "data/image/codec/format_decoder.hpp"

#include <memory>

namespace trainctl::data {

/// JPEG by libjpeg-turbo: baseline and progressive; grey, YCbCr, RGB, CMYK and YCCK (the latter two
/// as Adobe stores them: inverted). As torchvision's ImageFolder and decode_image() do, it leaves
/// an EXIF orientation alone. Every warning of the library is an error, and the file must have its
/// end marker. Only the part of the box is transformed, upsampled and converted, with the same
/// bytes as from the whole image.
class JpegDecoder final : public FormatDecoder {
 public:
  explicit JpegDecoder(const DecodeLimits& limits);
  ~JpegDecoder() override;

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The scans a JPEG file holds, without decoding any; it stops counting above `most`.
std::int64_t count_jpeg_scans(std::span<const std::byte> file, std::int64_t most);

}  // namespace trainctl::data
