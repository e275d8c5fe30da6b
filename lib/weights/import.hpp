#pragma once

#include <filesystem>
#include <string>

namespace trainctl::weights {

enum class Format { safetensors, torch };

/// What the file is by its first bytes. Throws Error(checkpoint) where it can be none of them.
Format format_of(const std::filesystem::path& file);

/// Reads what describes the tensors, not the tensors. A torch file is looked at by a process in a
/// sandbox. Throws Error(checkpoint) that names the file.
void check_weights_file(const std::filesystem::path& file);

/// Writes the tensors of a torch file as safetensors, `to` appearing complete or not at all. A
/// process in a sandbox reads the file and its checksums, so that a hostile one can harm nothing
/// else. Throws Error(checkpoint) that names the file, Error(resource) where it cannot be written.
void import_torch(const std::filesystem::path& file, const std::filesystem::path& to);

/// In the metadata of an imported file: what was done to it, one remark a line.
inline constexpr const char* kNotesKey = "trainctl.notes";

/// In a run folder, while the run lasts: the weights that came from a torch file.
inline constexpr const char* kImportedName = "weights.safetensors";

/// Throws Error(checkpoint) where the file's SHA-256 is not `expected`, 64 hex digits.
void check_sha256(const std::filesystem::path& file, const std::string& expected);

}  // namespace trainctl::weights
