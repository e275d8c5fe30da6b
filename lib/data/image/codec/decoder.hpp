#pragma once

#include "data/image/codec/format_decoder.hpp"

#include <memory>
#include <vector>

namespace trainctl::data {

/// Reads image files of any format we know, by their first bytes, as RGB. One thread's own.
class ImageDecoder final : public FormatDecoder {
 public:
  explicit ImageDecoder(const DecodeLimits& limits = {});
  ~ImageDecoder() override;
  ImageDecoder(ImageDecoder&& other) noexcept;
  ImageDecoder& operator=(ImageDecoder&& other) noexcept;

  ImageShape open(std::span<const std::byte> file) override;
  void decode(const Box& box, Reading reading, std::uint8_t* out) override;

 private:
  DecodeLimits limits_;
  std::vector<std::unique_ptr<FormatDecoder>>
      decoders_;  // made when first needed, in the order of the formats
  FormatDecoder* open_ = nullptr;
};

}  // namespace trainctl::data
