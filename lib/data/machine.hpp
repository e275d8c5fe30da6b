#pragma once

#include <cstdint>
#include <filesystem>

namespace trainctl::data {

/// Bytes this process may still take: what the machine has left, or less where a control group (v1 or v2) caps it.
/// `root` is "/" outside tests.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// Cores this process may run on (its affinity mask), at least 1.
int usable_cores();

}  // namespace trainctl::data
