#include "base/hash.hpp"
#include "base/safetensors.hpp"
#include "fuzz/folder.hpp"

// libFuzzer: any bytes are a safetensors file whose tensors can all be read, or throw
// Error(checkpoint).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainctl;
  fuzz::put("w", data, size);
  try {
    std::uint64_t sum = 0;
    const safetensors::File file(fuzz::folder() / "w");
    for (const safetensors::View& view : file.tensors()) sum += hash_bytes(view.bytes);
    if (sum == 1 && file.tensors().empty()) std::abort();  // forces the reads
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint || error.message().empty()) std::abort();
  }
  return 0;
}
