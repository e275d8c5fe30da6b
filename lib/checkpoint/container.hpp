#pragma once

#include "base/json.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::container {

/// A named tensor: name ("model/fc1.weight"), dtype in safetensors notation ("F32", "I64", "U8",
/// "BF16", ...), shape and bytes, row-major and little-endian.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes a checkpoint file in which every byte is covered by a checksum or has a fixed value:
/// - 32 bytes: "TCTLCKPT", u32 version 1, u32 CRC-32C of these 32 bytes (with this field as 0) and
///   the header, u64 length of the file, u64 length of the header; all little-endian
/// - the header, one line of JSON: {"meta": ..., "entries": [{"name", "dtype", "shape", "offset",
///   "length", "crc32c"}]}; crc32c as 8 hex digits, offsets relative to the first multiple of 64
///   after the header
/// - the bytes of each entry at a multiple of 64, with zeros before it; nothing after the last
/// The write is atomic: readers see the old file or the new one. Throws Error(resource) when the
/// disk fails, Error(checkpoint) when the file could not be read back unchanged: a duplicate name,
/// a shape that does not match the bytes, a number in `meta` that is not finite, text that is not
/// UTF-8.
void write(const std::filesystem::path& path, std::span<const Entry> entries, const Json& meta);

/// Writes to an open, empty file.
void write_to(int fd, std::span<const Entry> entries, const Json& meta, const std::string& label);

/// Returns the size of the file that write() would produce.
std::uint64_t file_bytes(std::span<const Entry> entries, const Json& meta);

/// Returns File::header_checksum() of the file from its first bytes, without verifying the rest.
/// Throws Error(checkpoint) or Error(resource).
std::uint32_t stored_checksum(const std::filesystem::path& path);

/// The content of a file. The entries point into the parsed bytes.
struct Contents {
  std::vector<Entry> entries;          // in file order
  std::vector<std::uint32_t> by_name;  // indices of entries, sorted by name
  Json meta;
  std::uint32_t header_checksum = 0;

  /// Returns null when there is no such entry.
  [[nodiscard]] const Entry* find(std::string_view name) const;
};

/// Verifies a complete file in memory: lengths, header, layout, checksums, padding. Throws
/// Error(checkpoint) with `label`, the entry and the error.
Contents parse(std::span<const std::byte> file, const std::string& label);

/// Verifies a file like File and returns its header_checksum(), but holds only a few megabytes in
/// memory. Throws like File.
std::uint32_t check_file(const std::filesystem::path& path);

/// A file that was read and verified completely.
class File {
 public:
  /// Throws Error(checkpoint) with the file, the entry and the error; Error(resource) when memory
  /// is short or reading fails, which does not mean that the file is damaged.
  explicit File(const std::filesystem::path& path);

  /// Entries in file order. The data is aligned to 64 bytes in memory, too.
  [[nodiscard]] const std::vector<Entry>& entries() const { return contents_.entries; }
  [[nodiscard]] const Json& meta() const { return contents_.meta; }
  /// Returns null when there is no such entry.
  [[nodiscard]] const Entry* find(std::string_view name) const { return contents_.find(name); }
  /// CRC-32C of prefix and header. It covers all other bytes through the checksums in the header.
  [[nodiscard]] std::uint32_t header_checksum() const { return contents_.header_checksum; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  using Buffer = std::unique_ptr<std::byte[], Free>;

  static Buffer allocate(std::size_t size);

  Buffer bytes_;
  Contents contents_;
};

}  // namespace trainctl::container
