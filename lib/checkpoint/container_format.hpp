#pragma once

#include "checkpoint/container.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What writing and reading a container share; not for others.
namespace trainctl::container {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPrefixBytes = 32;
constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t kMaxHeader = 16 << 20;

struct Prefix {
  std::uint32_t version = kVersion;
  std::uint32_t checksum = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;
};

/// The prefix as the file has it.
std::string pack(const Prefix& prefix);

/// The prefix at the front of `head`, its lengths compared with the real size of the file. Throws
/// Error(checkpoint).
Prefix read_prefix(std::span<const std::byte> head, std::uint64_t real_bytes);

/// The checksum that belongs into a prefix in front of this header.
std::uint32_t checksum_of(const Prefix& prefix, std::string_view header);

/// The next multiple of 64. Up to 63 below the end of its type.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Where the data of a file begins, from which offsets count.
constexpr std::uint64_t data_begin(std::uint64_t header_bytes) {
  return aligned(kPrefixBytes + header_bytes);
}

/// An entry as the header lists it, still without bytes.
struct Listed {
  Entry entry;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t checksum = 0;
};

struct Header {
  Json meta;
  std::vector<Listed> entries;
  std::vector<std::uint32_t> by_name;
};

/// Checks all that the header says for a file of so many bytes; the data itself is not looked at.
/// Throws Error(checkpoint).
Header read_header(std::string_view text, std::uint64_t file_bytes);

/// The checksum of prefix and header, the padding before an entry, the checksum of its data: each
/// throws Error(checkpoint) where it is wrong.
void expect_sound(const Prefix& prefix, std::string_view header);
void expect_zero(std::span<const std::byte> padding);
void expect_checksum(const Listed& listed, std::uint32_t found);

/// A name in quotes, printable and not too long, for messages.
std::string shown(std::string_view name);

}  // namespace trainctl::container
