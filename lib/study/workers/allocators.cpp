#include "study/workers/allocators.hpp"

#include "base/error.hpp"
#include "base/machine/allocator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace trainctl::study {
namespace {

constexpr std::array kLibraries{
    AllocatorLibrary{spec::Allocator::jemalloc, "jemalloc", "libjemalloc.so.2", "libjemalloc2"},
    AllocatorLibrary{spec::Allocator::mimalloc, "mimalloc", "libmimalloc.so.2", "libmimalloc2.0"},
};

constexpr const char* kPreload = "LD_PRELOAD";

struct Setting {
  spec::Allocator allocator;
  const char* name;
  const char* value;
};
// Left alone, jemalloc returns blocks of 8 MiB and more at once, and both the rest after moments:
// each step would pay page faults to get its tensors back.
constexpr std::array kSettings{
    Setting{spec::Allocator::jemalloc, "MALLOC_CONF",
            "oversize_threshold:0,dirty_decay_ms:600000,muzzy_decay_ms:600000"},
    Setting{spec::Allocator::mimalloc, "MIMALLOC_ALLOW_DECOMMIT", "0"},  // 2.0
    Setting{spec::Allocator::mimalloc, "MIMALLOC_PURGE_DELAY", "-1"},    // from 2.1 on
};

std::string users_preload() {
  const char* value = std::getenv(kPreload);
  return value == nullptr || *value == '\0' ? "" : ":" + std::string(value);
}

}  // namespace

std::span<const AllocatorLibrary> allocator_libraries() { return kLibraries; }

void add_allocator(spec::Allocator asked, launch::LaunchSpec& launch) {
  const auto* library = std::ranges::find(kLibraries, asked, &AllocatorLibrary::allocator);
  if (library == kLibraries.end()) return;
  const auto file = find_shared_library(library->file);
  ENSURE(resource, file.has_value(),
         "trainer.allocator is {}, and {} is in no folder of the dynamic linker: install it "
         "(Debian: {}), add its folder to LD_LIBRARY_PATH, or set trainer.allocator=system",
         library->name, library->file, library->package);
  launch.environment[kPreload] = file->string() + users_preload();
  for (const Setting& setting : kSettings) {
    if (setting.allocator != asked) continue;
    launch.environment[setting.name] = setting.value;
    launch.keep_users.emplace_back(setting.name);
  }
}

}  // namespace trainctl::study
