#include "base/machine/allocator.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

using trainctl::kHugePage;
using trainctl::use_huge_pages;

namespace {

/// Returns the KiB of this process on huge pages.
long huge_kib() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("AnonHugePages:", 0) == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      long kib = 0;
      words >> kib;
      return kib;
    }
  }
  return 0;
}

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + i / 4096);
  return made;
}

}  // namespace

TEST_CASE("use_huge_pages: memory keeps its content at any address and size") {
  const std::vector<std::byte> expected = counted(5 * kHugePage + 123);
  std::vector<std::byte> bytes = expected;
  use_huge_pages({});
  use_huge_pages(std::span(bytes).subspan(5, 100));
  use_huge_pages(std::span(bytes).subspan(3, 2 * kHugePage));
  use_huge_pages(bytes);
  CHECK(bytes == expected);
}

TEST_CASE("use_huge_pages: memory that was written moves to huge pages at once") {
  constexpr std::size_t kBytes = 16 * kHugePage;
  constexpr long kHalf = kBytes / 2 / 1024;
  long most = 0;
  for (int attempt = 0; attempt < 5 && most < kHalf; ++attempt) {  // a busy machine may have few
    std::vector<std::byte> bytes = counted(kBytes);
    const long before = huge_kib();
    use_huge_pages(bytes);
    most = std::max(most, huge_kib() - before);
  }
  if (most == 0) skip("this kernel provides no huge pages on request");
  CHECK(most >= kHalf);
}
