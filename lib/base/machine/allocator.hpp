#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace trainctl {

/// Makes glibc's malloc keep freed blocks of up to 32 MiB, whose return to the kernel costs page
/// faults: a fifth of a small network's step. Changes nothing where the user set MALLOC_* or
/// GLIBC_TUNABLES, or another allocator answers. Call it before other threads start.
void keep_freed_memory();

/// Returns which library answers malloc: "system" (the C library), "jemalloc", "mimalloc", or the
/// name of another library's file.
std::string loaded_allocator();

/// Returns a file of that name in the folders where the dynamic linker looks, if there is one.
std::optional<std::filesystem::path> find_shared_library(const std::string& name);

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks the kernel to hold `bytes` on pages of 2 MiB, at once on Linux 6.1 or newer, so that rows
/// read in random order cost no walk of the page table. Nothing changes where it refuses.
void use_huge_pages(std::span<const std::byte> bytes);

}  // namespace trainctl
