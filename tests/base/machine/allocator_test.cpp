#include "base/machine/allocator.hpp"

#include "support/catch.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>

// Sanitizers have their own malloc.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using trainctl::find_shared_library;
using trainctl::keep_freed_memory;
using trainctl::loaded_allocator;

namespace {

constexpr std::size_t kBytes = std::size_t{24} << 20;
constexpr std::size_t kPage = 4096;

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// Returns the page faults of allocating, writing and freeing a block, from the second time on.
long faults_of_reuse() {
  long before = 0;
  for (int round = 0; round < 5; ++round) {
    if (round == 1) before = page_faults();
    const auto block = std::make_unique_for_overwrite<char[]>(kBytes);
    for (std::size_t at = 0; at < kBytes; at += kPage)
      static_cast<volatile char*>(block.get())[at] = 1;
  }
  return page_faults() - before;
}

}  // namespace

TEST_CASE("keep_freed_memory: freed blocks are reused unless the user has configured malloc") {
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072", 1);
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  keep_freed_memory();
  CHECK(faults_of_reuse() > 10'000);

  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"})
    ::unsetenv(name);
  keep_freed_memory();
  CHECK(faults_of_reuse() < 100);
}

TEST_CASE("loaded_allocator: it is the C library without LD_PRELOAD") {
  if (std::getenv("LD_PRELOAD") == nullptr) CHECK(loaded_allocator() == "system");
}

TEST_CASE("find_shared_library: the folders of the dynamic linker are searched") {
  const auto found = find_shared_library("libc.so.6");
  REQUIRE(found);
  CHECK(found->is_absolute());
  CHECK_FALSE(find_shared_library("libnone.so.77"));
}

#endif
