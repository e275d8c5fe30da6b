#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// One file of a ZIP archive; the views point into the archive. The name is a label: nothing is
/// ever written under it.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  std::uint32_t crc = 0;
};

/// The files of an archive that stores them uncompressed, as torch.save does, with zip64 or
/// without. Strict: no encryption, no two of a name, no overlap, local headers that agree with the
/// directory. Throws Error(checkpoint).
std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive);

/// Throws Error(checkpoint) where the bytes are not those that were written.
void check_crc(const ZipEntry& entry);

}  // namespace trainctl::weights
