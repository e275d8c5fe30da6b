#pragma once

#include "weights/tensor_names.hpp"

#include <filesystem>

namespace trainctl::weights {

enum class Format { safetensors, torch };

/// Detects the format by the first bytes. Throws Error(checkpoint) for any other format.
Format format_of(const std::filesystem::path& file);

/// The tensors to read from a file, and how to rename them.
struct Selection {
  std::string section = {};  // key of the state dict in a torch file; empty: the usual keys
  Renaming renaming = {};
};

/// Reads the tensor headers, not the data, and applies the renaming. A sandboxed process parses a
/// torch file. Throws Error(checkpoint) that names the file, Error(config) when the selection
/// matches nothing in it.
std::vector<Entry> entries_of(const std::filesystem::path& file, const Selection& selection = {});

/// Atomically writes the selected tensors of a torch or safetensors file to `to` as safetensors. A
/// sandboxed process parses a torch file and verifies its checksums, so that a malicious file
/// cannot do harm. Throws like entries_of(), and Error(resource) when `to` cannot be written.
void import_weights(const std::filesystem::path& file, const std::filesystem::path& to,
                    const Selection& selection = {});

/// Metadata key of an imported file: the changes made by the import, one remark per line.
inline constexpr const char* kNotesKey = "trainctl.notes";

/// File name in a run folder, for the duration of the run: weights converted from a torch file.
inline constexpr const char* kImportedName = "weights.safetensors";

/// Throws Error(checkpoint) when the file's SHA-256 is not `expected`, 64 hex digits.
void check_sha256(const std::filesystem::path& file, const std::string& expected);

}  // namespace trainctl::weights
