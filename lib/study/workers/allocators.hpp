#pragma once

#include "launch/supervise/supervisor.hpp"
#include "spec/experiment/experiment.hpp"

#include <span>
#include <string>

namespace trainctl::study {

/// An allocator that workers may be started with.
struct AllocatorLibrary {
  spec::Allocator allocator;
  const char* name;     // as in the experiment file
  const char* file;     // as the dynamic linker names it
  const char* package;  // of Debian and Ubuntu
};
/// All but the C library's own.
std::span<const AllocatorLibrary> allocator_libraries();

/// Has the workers preload what answers malloc, before what the user preloads, and tells it to keep
/// freed memory as keep_freed_memory() tells glibc, unless the user has said otherwise. Throws
/// Error(resource) that names the package where the library is not found.
void add_allocator(spec::Allocator asked, launch::LaunchSpec& launch);

}  // namespace trainctl::study
