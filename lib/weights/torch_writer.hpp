#pragma once

#include "base/safetensors.hpp"

namespace trainctl::weights {

/// A file to be written to a ZIP archive.
struct ZipContent {
  std::string name;
  std::string_view bytes;
};

/// Sizes and offsets from this value on use zip64 fields.
inline constexpr std::uint64_t kZip64From = 0xffffffff;

/// Writes an archive of uncompressed files, each aligned to 64 bytes as torch.save does.
/// `zip64_from` is for tests. Throws Error(resource).
void write_zip(int fd, std::span<const ZipContent> files, const std::string& label,
               std::uint64_t zip64_from = kZip64From);

/// Atomically writes a state dict for torch.load(path, weights_only=True) in PyTorch 1.6 and later:
/// one CPU storage per tensor, without gradients. Throws Error(resource), or Error(checkpoint) for
/// a dtype without a torch storage.
void write_torch_file(const std::filesystem::path& path,
                      std::span<const safetensors::View> tensors);

}  // namespace trainctl::weights
