#pragma once

#include "checkpoint/container.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Internal definitions shared by the reader and the writer of containers.
namespace trainctl::container {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPrefixBytes = 32;
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kMaxHeader = 16 << 20;

/// The first 32 bytes of a file, without the magic number.
struct Prefix {
  std::uint32_t version = kVersion;
  std::uint32_t checksum = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;
};

/// Returns the prefix as stored in the file.
std::string pack(const Prefix& prefix);

/// Parses the prefix at the start of `head` and compares its lengths with the real size of the
/// file. Throws Error(checkpoint).
Prefix read_prefix(std::span<const std::byte> head, std::uint64_t real_bytes);

/// Returns the checksum of a prefix with this header.
std::uint32_t checksum_of(const Prefix& prefix, std::string_view header);

/// Rounds up to a multiple of 64. Overflows for the last 63 values of the type.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns the start of the data; offsets of entries are relative to it.
constexpr std::uint64_t data_begin(std::uint64_t header_bytes) {
  return aligned(kPrefixBytes + header_bytes);
}

/// An entry as listed in the header, without its bytes.
struct Listed {
  Entry entry;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t checksum = 0;
};

/// The parsed header of a file.
struct Header {
  Json meta;
  std::vector<Listed> entries;
  std::vector<std::uint32_t> by_name;
};

/// Validates the header for a file of that size, without reading the data. Throws
/// Error(checkpoint).
Header read_header(std::string_view text, std::uint64_t file_bytes);

/// Check the checksum of prefix and header, the padding before an entry, and the checksum of its
/// data. Each throws Error(checkpoint) on a mismatch.
void expect_sound(const Prefix& prefix, std::string_view header);
void expect_zero(std::span<const std::byte> padding);
void expect_checksum(const Listed& listed, std::uint32_t found);

/// Returns a name for messages: quoted, printable and shortened.
std::string shown(std::string_view name);

}  // namespace trainctl::container
