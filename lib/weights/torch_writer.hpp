#pragma once

#include "base/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trainctl::weights {

/// A file of a ZIP archive that is to be written.
struct ZipContent {
  std::string name;
  std::string_view bytes;
};

/// Sizes and offsets from here on are written in zip64 fields.
inline constexpr std::uint64_t kZip64From = 0xffffffff;

/// Writes an archive that stores the files uncompressed, each aligned to 64 bytes as torch.save
/// does. `zip64_from` is for tests. Throws Error(resource).
void write_zip(int fd, std::span<const ZipContent> files, const std::string& label,
               std::uint64_t zip64_from = kZip64From);

/// Writes a state dict that torch.load(path, weights_only=True) of PyTorch 1.6 and later reads: one
/// storage a tensor, on the CPU, without gradient. `path` appears complete or not at all. Throws
/// Error(resource), and Error(checkpoint) for a dtype that torch.save has no storage for.
void write_torch_file(const std::filesystem::path& path,
                      std::span<const safetensors::View> tensors);

}  // namespace trainctl::weights
