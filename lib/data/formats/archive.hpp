#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace trainctl::data {

/// Reads a plain or gzipped file from its start to its end. All errors are Error(data) that name
/// file and byte offset.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to the size of `out`; fewer bytes only at the end. For gzip the end has passed its
  /// checksum.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// Passes over `count` bytes; returns fewer only at the end.
  virtual std::uint64_t skip(std::uint64_t count);
  /// Most bytes that can come out of this file, known before reading.
  [[nodiscard]] virtual std::uint64_t most() const = 0;
};

/// Opens `path`; a name that ends in .gz is unpacked on the way.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

}  // namespace trainctl::data
