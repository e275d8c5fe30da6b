#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace trainctl {

/// Makes glibc's malloc keep freed blocks of up to 32 MiB. Returning them to the kernel causes page
/// faults, a fifth of a small network's step. Changes nothing if the user has set MALLOC_* or
/// GLIBC_TUNABLES, or if another allocator is loaded. Call it before other threads start.
void keep_freed_memory();

/// Returns which library implements malloc: "system" (the C library), "jemalloc", "mimalloc", or
/// the file name of another library.
std::string loaded_allocator();

/// Returns the path of the library `name` in the dynamic linker's folders, if found.
std::optional<std::filesystem::path> find_shared_library(const std::string& name);

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks the kernel to back `bytes` with 2 MiB pages, immediately on Linux 6.1 or newer, so that
/// reading rows in random order causes fewer TLB misses. Changes nothing if the kernel refuses.
void use_huge_pages(std::span<const std::byte> bytes);

}  // namespace trainctl
