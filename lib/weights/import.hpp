#pragma once

#include "weights/tensor_names.hpp"

#include <filesystem>
#include <string>

namespace trainctl::weights {

enum class Format { safetensors, torch };

/// What the file is by its first bytes. Throws Error(checkpoint) where it can be none of them.
Format format_of(const std::filesystem::path& file);

/// What is taken of a file, and under which names.
struct Selection {
  std::string section = {};  // of a torch file: the key of the state dict; empty: the usual ones
  Renaming renaming = {};
};

/// Reads what describes the tensors, not the tensors, and applies the renaming. A torch file is
/// looked at by a process in a sandbox. Throws Error(checkpoint) that names the file, Error(config)
/// where the selection fits nothing in it.
std::vector<Entry> entries_of(const std::filesystem::path& file, const Selection& selection = {});

/// Writes the selected tensors of a torch or safetensors file as safetensors, `to` appearing
/// complete or not at all. A process in a sandbox reads a torch file and its checksums, so that a
/// hostile one can harm nothing else. Throws as check_weights_file(), and Error(resource) where
/// `to` cannot be written.
void import_weights(const std::filesystem::path& file, const std::filesystem::path& to,
                    const Selection& selection = {});

/// In the metadata of an imported file: what was done to it, one remark a line.
inline constexpr const char* kNotesKey = "trainctl.notes";

/// In a run folder, while the run lasts: the weights that came from a torch file.
inline constexpr const char* kImportedName = "weights.safetensors";

/// Throws Error(checkpoint) where the file's SHA-256 is not `expected`, 64 hex digits.
void check_sha256(const std::filesystem::path& file, const std::string& expected);

}  // namespace trainctl::weights
