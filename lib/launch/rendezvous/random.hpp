#pragma once

#include <cstddef>
#include <span>

namespace trainctl::launch {

/// The kernel's random numbers, fit for secrets. Error(resource).
void fill_with_random(std::span<std::byte> bytes);

}  // namespace trainctl::launch
