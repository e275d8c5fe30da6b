#include "data/image/codec/png.hpp"
#include "fuzz/decode_fuzz.hpp"

// libFuzzer: any bytes are decoded as a PNG, or refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trainctl::data::fuzz::decode<trainctl::data::make_png_decoder>(data, size);
}
