#pragma once

#include "data/file_reader.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace trainctl::data {

/// A whole regular file in memory, read-only; its pages come when they are touched. Throws
/// Error(data) where it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// As errors name it.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// As it was when it was opened.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }

 private:
  std::string name_;
  FileStamp stamp_;
  std::span<const std::byte> bytes_;
};

/// Digest of `bytes` for a manifest: of all of them up to 256 MiB, beyond that of their number and
/// of 4,096 pages spread evenly, so that a start does not read a set of many gigabytes.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace trainctl::data
