#pragma once

#include "data/core/dataset.hpp"

namespace trainctl::data {

/// The limit of scans in a JPEG: encoders write about ten, a decompression bomb has thousands.
constexpr int kMostScans = 100;

/// Limits of the claims in an image header, enforced before any allocation.
struct DecodeLimits {
  std::int64_t pixels = kMostPixels;
  std::int64_t scans = kMostScans;
  /// Limit of pixels times scans, the work of a progressive JPEG.
  std::int64_t scanned_pixels = std::int64_t{1} << 30;
};

/// How much of a file is read. Damage is detected with certainty only when the whole file is read.
enum class Reading { whole_file, needed_part };

/// Decodes files of one format as RGB, one after the other. Not thread-safe: each thread has a
/// separate decoder.
class FormatDecoder {
 public:
  virtual ~FormatDecoder() = default;
  /// Reads the header. `file` must stay valid until the pixels are read. Throws Error(data) for a
  /// damaged file or one that exceeds the limits.
  virtual ImageShape open(std::span<const std::byte> file) = 0;
  /// Writes the pixels of a box of the opened image, with contiguous rows, and closes the file.
  /// Throws Error(data) for damage in the part that is read.
  virtual void decode(const Box& box, Reading reading, std::uint8_t* out) = 0;
};

/// Throws Error(data) when the claimed image is empty or has too many pixels.
void check_extents(std::int64_t height, std::int64_t width, const DecodeLimits& limits);

/// Decodes image files as RGB; detects the format by the first bytes. Not thread-safe.
class ImageDecoder final : public FormatDecoder {
 public:
  explicit ImageDecoder(const DecodeLimits& limits = {});

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  DecodeLimits limits_;
  /// Created on demand, in the order of the formats.
  std::vector<std::unique_ptr<FormatDecoder>> decoders_;
  FormatDecoder* open_ = nullptr;
};

/// Returns whole images as pixels, decoded or raw. Not thread-safe.
class PixelReader {
 public:
  /// Reads only the header. Throws Error(data).
  ImageShape shape(const StoredImage& image);
  /// Returns pixels that lie in `image` or in this object and are valid until the next call. Throws
  /// Error(data) for a file with any damage.
  ImageView read(const StoredImage& image);

 private:
  ImageDecoder decoder_;
  std::vector<std::uint8_t> decoded_;
};

}  // namespace trainctl::data
