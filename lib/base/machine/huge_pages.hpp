#pragma once

#include <cstddef>
#include <span>

namespace trainctl {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks the kernel to hold `bytes` on pages of 2 MiB, and to move what is there already onto such
/// pages at once (Linux 6.1 or newer; older ones do it in the background). Rows read in random
/// order cost a walk of the page table each without them. A wish: nothing changes where it is
/// refused.
void use_huge_pages(std::span<const std::byte> bytes);

}  // namespace trainctl
