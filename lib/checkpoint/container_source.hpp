#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

// What reading and checking a container share; not for others.
namespace trainctl::container {

/// A regular file, open to be read. Throws Error(checkpoint) where what lies there cannot be a
/// container or is too short, and Error(resource) where a disk, a server or the process's own
/// limits and rights keep it from being read: a sound file that could not be looked at must not
/// pass for a damaged one.
class Source {
 public:
  explicit Source(const std::filesystem::path& path);

  [[nodiscard]] std::size_t size() const { return size_; }
  /// All of `bytes`, from `at` on.
  void read(std::uint64_t at, std::span<std::byte> bytes) const;

 private:
  Fd fd_;
  std::size_t size_ = 0;
};

}  // namespace trainctl::container
