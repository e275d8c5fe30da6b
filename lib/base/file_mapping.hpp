#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <cstddef>
#include <span>

namespace trainctl {

/// A whole regular file in memory, read-only; its pages come when they are touched. Where the file
/// becomes shorter meanwhile, touching them raises SIGBUS: whoever reads them in a process that
/// matters holds a data::WatchedPages over them.
class FileMapping {
 public:
  /// Throws Error of `kind` where it is no regular file or cannot be read.
  FileMapping(const fs::path& path, ErrorKind kind);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::span<const std::byte> bytes_;
};

}  // namespace trainctl
