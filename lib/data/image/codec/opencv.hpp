#pragma once

#include "data/image/codec/decoder.hpp"

namespace trainctl::data {

/// Returns a decoder for WebP, BMP and TIFF (its first page) on OpenCV, which always decodes whole
/// images. Like Pillow's convert("RGB"), it drops alpha and applies the orientation of a TIFF.
/// Unlike Pillow, which clips 16-bit gray to white, it keeps the upper 8 bits. OpenCV is loaded on
/// first use, from libtrainctl_opencv.so next to the program: linking OpenCV and its hundred
/// libraries would add 0.2 s to every start.
std::unique_ptr<FormatDecoder> make_opencv_decoder(const DecodeLimits& limits);

// The entry points of libtrainctl_opencv.so.

constexpr const char* kOpencvLibrary = "libtrainctl_opencv.so";
constexpr const char* kOpencvSymbol = "trainctl_opencv_decode_2";
constexpr const char* kOpencvVersionSymbol = "trainctl_opencv_version";

/// The result of decoding; `other_extents` means that the size differs from the header's.
enum class OpencvResult { decoded, damaged, unsupported, other_extents };

/// A file, the extents from its header, and memory for that many RGB pixels.
struct OpencvImage {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  bool is_tiff = false;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::uint8_t* out = nullptr;
};
using OpencvDecode = OpencvResult (*)(const OpencvImage& image);

}  // namespace trainctl::data
