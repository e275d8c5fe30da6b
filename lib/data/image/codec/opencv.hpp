#pragma once

#include "data/image/codec/decoder.hpp"
#include "data/image/image.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainctl::data {

/// What the header of a WebP, BMP or TIFF file says about its pixels.
struct ClaimedImage {
  Extents stored;       // of the pixels as they lie in the file
  int orientation = 1;  // a TIFF's, 1 to 8: how they are to be turned
  bool is_tiff = false;
  /// Where a TIFF has numbers of 16 bits that stand in the way of its plain pixels unless they are
  /// 1: to be turned, to be multiplied by alpha. 0: nowhere.
  std::array<std::size_t, 2> not_plain_at{};
};

/// Reads a header, tiles included. Throws Error(data) where it is damaged, goes beyond the limits
/// or claims more pixels than an uncompressed file can hold.
ClaimedImage header_claim(std::span<const std::byte> file, const DecodeLimits& limits);

/// Throws Error(data) where uncompressed rows of so many bytes do not fit into a file.
void check_size(const char* format, const Extents& image, std::uint64_t row_bytes,
                std::size_t file_bytes);

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

/// Extents of an image once it is turned as `orientation` (TIFF's and EXIF's, 1 to 8) says.
Extents upright_extents(const Extents& stored, int orientation);

/// Writes a box of the image that `stored` is once it is turned; rows without gaps.
void copy_upright(const ImageView& stored, int orientation, const Box& box, std::uint8_t* out);

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
