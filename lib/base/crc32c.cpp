#include "base/crc32c.hpp"

#include <isa-l/crc.h>

#include <algorithm>

namespace trainctl {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30;  // ISA-L takes the length as an int

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // ISA-L leaves the inversions of the standard, first and last, to its caller.
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    // Its older headers lack the const; it only reads.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(piece.data()));
    state = ::crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

}  // namespace trainctl
