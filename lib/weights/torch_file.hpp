#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// One tensor of a state dict: a strided view of a storage, which other tensors may share.
struct TorchTensor {
  std::string_view name;
  std::string_view dtype;  // in safetensors notation: "F32"
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements, like the offset
  std::int64_t offset = 0;
  std::span<const std::byte> storage;
};

/// The state dict of a file, with remarks on how it was found.
struct TorchFile {
  std::vector<TorchTensor> tensors;
  std::vector<std::string> notes;  // for example "its 'state_dict' was taken, ..."
};

/// `checksums` verifies the CRC of every storage; `structure` only that of the pickle.
enum class Verify { structure, checksums };

/// Reads the state dict of a file written by torch.save (1.6 and later), a ZIP archive of a pickle
/// and storages. The state dict is under the key `section`; by default it is the root object or
/// under 'state_dict', 'model' and the like. Every view lies within its storage, and the file size
/// bounds their total size. Throws Error(checkpoint); the views point into `file`.
TorchFile read_torch_file(std::span<const std::byte> file, Verify verify,
                          const std::string& section = {});

/// Returns the elements in row-major order: a view of the storage if it is contiguous, otherwise
/// `copy`.
std::span<const std::byte> row_major(const TorchTensor& tensor, std::vector<std::byte>& copy);

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
