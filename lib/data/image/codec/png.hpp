#pragma once

#include "data/image/codec/format_decoder.hpp"

#include <memory>

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

}  // namespace trainctl::data
