#include "base/allocator.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace trainctl {
namespace {

constexpr int kMiB = 1 << 20;

bool users_choice() {
  constexpr std::array kNames{"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_",
                              "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"};
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  const bool tuned = tunables != nullptr &&
                     std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos;
  return tuned || std::ranges::any_of(kNames, [](const char* name) { return std::getenv(name); });
}

}  // namespace

void keep_freed_memory() {
  if (users_choice()) return;
  ::mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
  ::mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
  ::mallopt(M_TOP_PAD, 64 * kMiB);
}

}  // namespace trainctl
