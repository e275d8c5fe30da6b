#include "checkpoint/container_format.hpp"

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace trainctl::container {
namespace {

constexpr std::string_view kMagic = "TCTLCKPT";
constexpr std::size_t kShown = 200;

void append_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::uint64_t number_at(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::string grouped(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<long long>::max();
  return with_thousands(static_cast<long long>(std::min(value, kMost)));
}

}  // namespace

std::string pack(const Prefix& prefix) {
  std::string out(kMagic);
  append_number(out, prefix.version, 4);
  append_number(out, prefix.checksum, 4);
  append_number(out, prefix.file_bytes, 8);
  append_number(out, prefix.header_bytes, 8);
  return out;
}

Prefix read_prefix(std::span<const std::byte> head, std::uint64_t real_bytes) {
  ENSURE(checkpoint, head.size() >= kPrefixBytes, "is truncated: {} of at least {} bytes",
         head.size(), kPrefixBytes);
  ENSURE(checkpoint, std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0,
         "is no checkpoint of trainctl: it does not begin with {}", kMagic);
  const Prefix prefix{static_cast<std::uint32_t>(number_at(head.subspan(8, 4))),
                      static_cast<std::uint32_t>(number_at(head.subspan(12, 4))),
                      number_at(head.subspan(16, 8)), number_at(head.subspan(24, 8))};
  ENSURE(checkpoint, prefix.version <= kVersion, "was written by a newer trainctl (format {})",
         prefix.version);
  ENSURE(checkpoint, prefix.version == kVersion, "has format {}, which there never was",
         prefix.version);
  ENSURE(checkpoint, real_bytes >= prefix.file_bytes, "is truncated: {} of {} bytes",
         grouped(real_bytes), grouped(prefix.file_bytes));
  ENSURE(checkpoint, real_bytes <= prefix.file_bytes, "has {} bytes behind its end at {}",
         grouped(real_bytes - prefix.file_bytes), grouped(prefix.file_bytes));
  ENSURE(checkpoint, prefix.header_bytes <= kMaxHeader,
         "its header claims {} bytes; {} are the most", grouped(prefix.header_bytes),
         grouped(kMaxHeader));
  ENSURE(checkpoint, prefix.header_bytes <= real_bytes - kPrefixBytes,
         "its header claims {} bytes, but {} follow", grouped(prefix.header_bytes),
         grouped(real_bytes - kPrefixBytes));
  return prefix;
}

std::uint32_t checksum_of(const Prefix& prefix, std::string_view header) {
  Prefix plain = prefix;
  plain.checksum = 0;
  const std::string first = pack(plain);
  return crc32c(std::as_bytes(std::span(header)), crc32c(std::as_bytes(std::span(first))));
}

void expect_sound(const Prefix& prefix, std::string_view header) {
  const std::uint32_t found = checksum_of(prefix, header);
  ENSURE(checkpoint, found == prefix.checksum, "the checksum of its header is {:08x}, not {:08x}",
         found, prefix.checksum);
}

void expect_zero(std::span<const std::byte> padding) {
  const bool is_zero =
      std::ranges::all_of(padding, [](std::byte byte) { return byte == std::byte{0}; });
  ENSURE(checkpoint, is_zero, "the padding before it is not zero");
}

void expect_checksum(const Listed& listed, std::uint32_t found) {
  ENSURE(checkpoint, found == listed.checksum, "its checksum is {:08x}, not {:08x}", found,
         listed.checksum);
}

std::string shown(std::string_view name) {
  return "'" + printable(name.substr(0, kShown)) + (name.size() > kShown ? "...'" : "'");
}

}  // namespace trainctl::container
