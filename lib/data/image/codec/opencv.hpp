#pragma once

#include "data/image/codec/header_claim.hpp"

#include <vector>

namespace trainctl::data {

/// WebP, BMP and TIFF (its first page) by OpenCV, always decoded whole. As Pillow's convert("RGB"):
/// alpha is dropped, and a TIFF is turned as its orientation says; but of 16 bits a grey TIFF keeps
/// the upper 8, which Pillow clips to white. OpenCV and its hundred
/// libraries are loaded when the first such file comes, from libtrainctl_opencv.so beside the
/// program: linked, they would cost every start 0.2 s.
class OpencvDecoder final : public FormatDecoder {
 public:
  explicit OpencvDecoder(const DecodeLimits& limits) : limits_(limits) {}

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  std::span<const std::byte> plain_file();

  DecodeLimits limits_;
  std::span<const std::byte> file_;
  ClaimedImage claim_;
  ImageShape shape_;
  std::vector<std::byte> copy_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace trainctl::data
