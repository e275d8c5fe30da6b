#pragma once

#include "data/core/dataset.hpp"
#include "data/image/codec/decoder.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::data {

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
