#pragma once

#include "data/core/dataset.hpp"
#include "data/image/image.hpp"

namespace trainctl::data {

/// Most scans of a JPEG: encoders write about ten, a bomb has thousands.
constexpr int kMostScans = 100;

/// What a file may claim before anything is allocated for it.
struct DecodeLimits {
  std::int64_t pixels = kMostPixels;
  std::int64_t scans = kMostScans;
  /// Pixels times scans: the work of a progressive JPEG.
  std::int64_t scanned_pixels = std::int64_t{1} << 30;
};

/// How far a file is read. Whether it is sound is known only once all of it has been read.
enum class Reading { whole_file, needed_part };

/// Reads files of one format as RGB. One thread's own, used for one file after the other.
class FormatDecoder {
 public:
  virtual ~FormatDecoder() = default;
  /// Reads the header. `file` must stay until the pixels are read. Throws Error(data) for a damaged
  /// one and for one that goes beyond the limits.
  virtual ImageShape open(std::span<const std::byte> file) = 0;
  /// Writes the pixels of a box of the opened image, rows without gaps, and closes it. Throws
  /// Error(data) where the file, as far as it is read, is damaged.
  virtual void decode(const Box& box, Reading reading, std::uint8_t* out) = 0;
};

/// Throws Error(data) where an image that a file claims is empty or has too many pixels.
void check_extents(std::int64_t height, std::int64_t width, const DecodeLimits& limits);

/// Reads image files of any format we know, by their first bytes, as RGB. One thread's own.
class ImageDecoder final : public FormatDecoder {
 public:
  explicit ImageDecoder(const DecodeLimits& limits = {});

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  DecodeLimits limits_;
  /// Made when first needed, in the order of the formats.
  std::vector<std::unique_ptr<FormatDecoder>> decoders_;
  FormatDecoder* open_ = nullptr;
};

/// Whole images as pixels, from a file or as they are. One thread's own.
class PixelReader {
 public:
  /// Reads no more than the header. Throws Error(data).
  ImageShape shape(const StoredImage& image);
  /// The pixels lie in the image or here, until the next call. Throws Error(data) for a file that
  /// is damaged anywhere.
  ImageView read(const StoredImage& image);

 private:
  ImageDecoder decoder_;
  std::vector<std::uint8_t> decoded_;
};

}  // namespace trainctl::data
