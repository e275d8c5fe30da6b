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

/// One piece of data: name ("model/fc1.weight"), dtype in safetensors' words ("F32", "I64", "U8",
/// "BF16", ...), its shape and its bytes, row-major and little-endian.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The file of a checkpoint, every byte of which is under a checksum or has a required value:
///   32 bytes: "TCTLCKPT", u32 version 1, u32 CRC-32C of these 32 bytes (itself as 0) and the
///     header, u64 length of the file, u64 length of the header; all little-endian
///   the header, one line of JSON: {"meta": ..., "entries": [{"name", "dtype", "shape", "offset",
///     "length", "crc32c"}]}; crc32c as 8 hex digits, offsets from the first multiple of 64 behind
///     the header
///   the bytes of each entry at a multiple of 64, zeros before it; nothing behind the last.
/// Atomic: readers see the old file or the new one. Throws Error(resource) where the disk refuses,
/// Error(checkpoint) where the file could not be read back as it was given: a name twice, a shape
/// that does not give the bytes, a number in `meta` that is not finite, text that is not UTF-8.
void write(const std::filesystem::path& path, std::span<const Entry> entries, const Json& meta);

/// The same into a file that is open and empty.
void write_to(int fd, std::span<const Entry> entries, const Json& meta, const std::string& label);

/// Bytes that the file will take.
std::uint64_t file_bytes(std::span<const Entry> entries, const Json& meta);

/// What File::header_checksum() gives for the file, from its first bytes alone: nothing is checked
/// but them. Throws Error(checkpoint), Error(resource).
std::uint32_t stored_checksum(const std::filesystem::path& path);

/// What a file holds. The entries point into the bytes that were parsed.
struct Contents {
  std::vector<Entry> entries;          // in the order of the data
  std::vector<std::uint32_t> by_name;  // indices of entries, sorted by name
  Json meta;
  std::uint32_t header_checksum = 0;

  /// Null where there is none of that name.
  [[nodiscard]] const Entry* find(std::string_view name) const;
};

/// Checks a file that is in memory, as a whole: lengths, header, layout, checksums, padding. Throws
/// Error(checkpoint) with `label`, the entry and what is wrong with it.
Contents parse(std::span<const std::byte> file, const std::string& label);

/// Checks a file as File does, and gives its header_checksum(), but reads a few megabytes at a time
/// and keeps none. Throws as File.
std::uint32_t check_file(const std::filesystem::path& path);

/// A file that was read and found sound as a whole.
class File {
 public:
  /// Throws Error(checkpoint) naming the file, the entry and what is wrong; Error(resource) where
  /// there is no memory for it, or it cannot be read, which says nothing of the file.
  explicit File(const std::filesystem::path& path);

  /// In the order of the data, which is aligned to 64 bytes in memory, too.
  [[nodiscard]] const std::vector<Entry>& entries() const { return contents_.entries; }
  [[nodiscard]] const Json& meta() const { return contents_.meta; }
  /// Null where there is none of that name.
  [[nodiscard]] const Entry* find(std::string_view name) const { return contents_.find(name); }
  /// CRC-32C of prefix and header, and through the header's checksums of everything else.
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
