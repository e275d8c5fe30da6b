#pragma once

#include "data/image/codec/decoder.hpp"
#include "data/image/image.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace trainctl::data {

/// PNG by libpng: grey, RGB and palette of 1 to 16 bits, with or without alpha, also interlaced. As
/// Pillow's convert("RGB"): of 16 bits the upper 8 count, and alpha is dropped; but grey of 16 bits
/// is treated likewise, which Pillow clips to white. Every warning of the library and every wrong
/// checksum is an error, and the file must have its end chunk.
class PngDecoder final : public FormatDecoder {
 public:
  explicit PngDecoder(const DecodeLimits& limits);
  ~PngDecoder() override;

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  struct State;
  DecodeLimits limits_;
  std::unique_ptr<State> state_;  // of the open file
};

/// Writes an image of 1 (grey) or 3 (RGB) channels as a PNG file, all of it or nothing. Throws
/// Error(resource).
void write_png(const std::filesystem::path& path, const ImageView& image);

/// The bytes of such a file.
std::string png_of(const ImageView& image);

}  // namespace trainctl::data
