#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// One file of a ZIP archive; the views point into the archive. The name is only a label: no file
/// is ever written under it.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> bytes;
  std::uint32_t crc = 0;
};

/// Returns the files of an archive that stores them uncompressed, as torch.save does, with or
/// without zip64. Strict: rejects encryption, duplicate names, overlaps, and local headers that
/// differ from the directory. Throws Error(checkpoint).
std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive);

/// Throws Error(checkpoint) when the CRC does not match the bytes.
void check_crc(const ZipEntry& entry);

}  // namespace trainctl::weights
