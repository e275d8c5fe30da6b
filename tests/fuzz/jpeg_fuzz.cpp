#include "data/image/jpeg.hpp"
#include "fuzz/decode_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return trainctl::data::fuzz::decode<trainctl::data::JpegDecoder>(data, size);
}
