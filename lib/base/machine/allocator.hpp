#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace trainctl {

/// Makes glibc's malloc keep the memory that tensors free. By default it returns freed blocks to
/// the kernel whenever the heap happens to end in them, and each step then pays page faults to get
/// them back: a fifth of a small network's step, in some processes and some epochs only. Blocks up
/// to 32 MiB, glibc's own limit, are kept. Changes nothing where the user set MALLOC_* or
/// GLIBC_TUNABLES, or where another allocator answers. For a process that trains; call before other
/// threads start.
void keep_freed_memory();

/// Who answers malloc in this process: "system" for the C library, "jemalloc", "mimalloc", or the
/// name of another library's file.
std::string loaded_allocator();

/// A file of that name in the folders where the dynamic linker looks; nothing where there is none.
std::optional<std::filesystem::path> find_shared_library(const std::string& name);

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks the kernel to hold `bytes` on pages of 2 MiB, and to move what is there already onto such
/// pages at once (Linux 6.1 or newer; older ones do it in the background). Rows read in random
/// order cost a walk of the page table each without them. A wish: nothing changes where it is
/// refused.
void use_huge_pages(std::span<const std::byte> bytes);

}  // namespace trainctl
