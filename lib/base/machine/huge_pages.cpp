#include "base/machine/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace trainctl {
namespace {

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // since Linux 6.1, where the C library's headers are older
#endif

}  // namespace

void use_huge_pages(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t begin = (first + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (first + bytes.size()) / kHugePage * kHugePage;
  if (begin >= end) return;
  auto* const at = const_cast<std::byte*>(bytes.data()) + (begin - first);
  if (::madvise(at, end - begin, MADV_HUGEPAGE) == 0) (void)::madvise(at, end - begin, kCollapse);
}

}  // namespace trainctl
