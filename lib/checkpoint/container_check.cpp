#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/container_format.hpp"
#include "checkpoint/container_source.hpp"

#include <algorithm>
#include <array>

namespace trainctl::container {
namespace {

constexpr std::size_t kPiece = 2 << 20;

/// Of `length` bytes from `at` on.
std::uint32_t checksum_in(const Source& source, std::uint64_t at, std::uint64_t length,
                          std::span<std::byte> buffer) {
  std::uint32_t checksum = 0;
  for (std::uint64_t done = 0; done < length;) {
    const auto piece = buffer.first(std::min<std::uint64_t>(buffer.size(), length - done));
    source.read(at + done, piece);
    checksum = crc32c(piece, checksum);
    done += piece.size();
  }
  return checksum;
}

void check_data(const Source& source, const Header& header, std::uint64_t header_bytes) {
  std::vector<std::byte> buffer(kPiece);
  std::uint64_t end = kPrefixBytes + header_bytes;
  for (const Listed& listed : header.entries) {
    const std::uint64_t at = data_begin(header_bytes) + listed.offset;
    in_context(shown(listed.entry.name), [&] {
      const auto padding = std::span(buffer).first(at - end);  // under 64 bytes, by read_header()
      source.read(end, padding);
      expect_zero(padding);
      expect_checksum(listed, checksum_in(source, at, listed.length, buffer));
    });
    end = at + listed.length;
  }
}

}  // namespace

std::uint32_t check_file(const std::filesystem::path& path) {
  return in_context(printable(path.string()), [&] {
    const Source source(path);
    std::array<std::byte, kPrefixBytes> head{};
    const auto start = std::span(head).first(std::min(source.size(), head.size()));
    source.read(0, start);
    const Prefix prefix = read_prefix(start, source.size());
    std::string text(prefix.header_bytes, '\0');
    source.read(kPrefixBytes, std::as_writable_bytes(std::span(text)));
    expect_sound(prefix, text);
    check_data(source, read_header(text, source.size()), text.size());
    return prefix.checksum;
  });
}

}  // namespace trainctl::container
