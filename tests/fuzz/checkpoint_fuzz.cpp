#include "checkpoint/container.hpp"
#include "checkpoint/container_files.hpp"
#include "fuzz/folder.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace trainctl;

bool same(const container::Entry& a, const container::Entry& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::ranges::equal(a.bytes, b.bytes);
}

void expect_same_when_written(const container::Contents& contents) {
  container::write(fuzz::folder() / "a", contents.entries, contents.meta);
  const container::File back(fuzz::folder() / "a");
  if (back.meta() != contents.meta || !std::ranges::equal(back.entries(), contents.entries, same))
    std::abort();
  for (const container::Entry& entry : contents.entries) {
    if (contents.find(entry.name) != &entry) std::abort();
  }
}

void attempt(const std::string& file) {
  container::Contents contents;
  try {
    contents = container::parse(container_files::bytes_of(file), "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint || error.message().empty()) std::abort();
    return;
  }
  expect_same_when_written(contents);
}

}  // namespace

// libFuzzer: any bytes either parse as a checkpoint that survives a round trip, or throw
// Error(checkpoint). A second attempt sets fitting lengths and a checksum, so that the header is
// parsed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  attempt(file);
  if (size < 32) return 0;
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < 8; ++i) header_bytes |= std::uint64_t{data[24 + i]} << (8 * i);
  container_files::seal(file, header_bytes % (size - 31));
  attempt(file);
  return 0;
}
