#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/pack/pack_format.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using namespace trainctl;
using namespace trainctl::data;

/// Opens any bytes as a pack and reads every sample; a bad file must throw Error(data).
void open(std::span<const std::byte> file) {
  try {
    const PackView pack(file, "fuzz.pack");
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < pack.header().samples; ++i) {
      sum += hash_bytes(pack.bytes(pack.entry(i))) + pack.name(i).size();
    }
    if (sum == 1 && pack.header().samples == 0) std::abort();  // forces the reads
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) std::abort();
  }
}

/// Returns the file with correct checksums, so that the fuzzer reaches the data after them.
std::string with_valid_checksums(std::string file) {
  PackHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.magic = kPackMagic;
  header.version = kPackVersion;
  const auto hash_of = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset > file.size()) return std::uint64_t{0};
    return hash_bytes(std::as_bytes(std::span(file))
                          .subspan(offset, std::min<std::uint64_t>(bytes, file.size() - offset)));
  };
  header.index_hash = hash_of(header.index_offset(), header.index_bytes());
  header.notes_hash = hash_of(header.notes_offset(), header.notes_bytes);
  return file.replace(0, kPackPage, header_page(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  open(file);
  if (size < kPackPage) return 0;
  const std::string right = with_valid_checksums({reinterpret_cast<const char*>(data), size});
  open(std::as_bytes(std::span(right)));
  return 0;
}
