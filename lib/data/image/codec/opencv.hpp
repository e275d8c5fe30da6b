#pragma once

#include "data/image/codec/decoder.hpp"

namespace trainctl::data {

/// WebP, BMP and TIFF (its first page) by OpenCV, always decoded whole. As Pillow's convert("RGB"):
/// alpha is dropped, and a TIFF is turned as its orientation says; but of 16 bits a gray TIFF keeps
/// the upper 8, which Pillow clips to white. OpenCV and its hundred libraries are loaded
/// when the first such file comes, from libtrainctl_opencv.so next to the program: linked, they
/// would cost every start 0.2 s.
std::unique_ptr<FormatDecoder> make_opencv_decoder(const DecodeLimits& limits);

// The one door of libtrainctl_opencv.so.

constexpr const char* kOpencvLibrary = "libtrainctl_opencv.so";
constexpr const char* kOpencvSymbol = "trainctl_opencv_decode_2";
constexpr const char* kOpencvVersionSymbol = "trainctl_opencv_version";

enum class OpencvVerdict { sound, damaged, unsupported, other_extents };

/// A file, the extents its header claims and memory for so many RGB pixels.
struct OpencvImage {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  bool is_tiff = false;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::uint8_t* out = nullptr;
};
using OpencvDecode = OpencvVerdict (*)(const OpencvImage& image);

}  // namespace trainctl::data
