#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trainctl::launch {

/// Processes that the kernel has killed for memory, in our control group or else on the machine;
/// nothing where it does not tell. `root` stands for "/" in tests.
std::optional<std::uint64_t> memory_kills(const std::filesystem::path& root = "/");

/// Tells whether ranks that were killed by SIGKILL were killed for memory: each rise of the counter
/// explains one.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::filesystem::path root = "/");

  /// What is said behind "it was killed by SIGKILL" of a rank that had so many bytes at most.
  std::string explain_kill(double peak_bytes);

 private:
  std::filesystem::path root_;
  std::optional<std::uint64_t> explained_;
};

}  // namespace trainctl::launch
