#include "base/error.hpp"
#include "base/hash.hpp"
#include "weights/archives.hpp"
#include "weights/pickle.hpp"
#include "weights/torch_file.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace trainctl;
using namespace trainctl::weights;

/// Opens any bytes as a state dict and reads every tensor; a bad file must throw Error(checkpoint).
void open(std::span<const std::byte> file) {
  try {
    std::uint64_t sum = 0;
    const TorchFile sound = read_torch_file(file, Verify::structure);
    for (const TorchTensor& tensor : sound.tensors) {
      std::vector<std::byte> copy;
      sum += hash_bytes(row_major(tensor, copy)) + tensor.name.size();
    }
    if (sum == 1 && sound.tensors.empty()) std::abort();  // forces the reads
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint || error.message().empty()) std::abort();
  }
}

}  // namespace

// libFuzzer: the bytes are a whole archive, and then the pickle inside a valid archive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  open({reinterpret_cast<const std::byte*>(data), size});
  const std::string archive =
      testing::zip_of({{"a/data.pkl", {reinterpret_cast<const char*>(data), size}},
                       {"a/data/0", std::string(16, '\x01')},
                       {"a/data/1", std::string(48, '\x02')}});
  open(testing::bytes_of(archive));
  return 0;
}
