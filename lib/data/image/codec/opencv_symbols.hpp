#pragma once

#include <cstddef>
#include <cstdint>

// The one door of libtrainctl_opencv.so.

namespace trainctl::data {

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
