#pragma once

#include "base/files.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::checkpoint {

/// Reads the manifest of a checkpoint's folder. Throws Error(checkpoint) when it is missing,
/// damaged or disagrees with the step in the folder's name, Error(resource) when reading fails.
Manifest read_manifest(const fs::path& checkpoint);

/// Reads the file of a rank and verifies that it is the committed one. Throws like verify().
container::File read_part(const fs::path& checkpoint, const Manifest::Part& part);

/// Returns the CRC-32C of a file, using a few megabytes of memory. Throws Error(resource) when it
/// cannot be read.
std::uint32_t checksum_of_file(const fs::path& path);

/// Verifies the length and checksum of a shared weights file. Throws like verify().
void check_shared_file(const fs::path& checkpoint, const Manifest::SharedGroup& shared);

/// Reads and verifies all files with little memory. Throws Error(checkpoint) with the file and the
/// error; Error(resource) when reading fails, which does not mean that the checkpoint is damaged.
Manifest verify(const fs::path& checkpoint);

/// Returns why the checkpoint does not verify, or nothing if it does. Throws Error(resource) like
/// verify().
std::optional<std::string> damage(const fs::path& checkpoint);

/// Returns the seal of a checkpoint, the checksum in the first bytes of its manifest. An equal seal
/// implies that the parts should be the same. Throws Error(checkpoint) or Error(resource).
std::uint32_t seal_of(const fs::path& checkpoint);

/// Returns whether the manifest still has that seal and the parts have the lengths in it, without
/// reading their content. Throws Error(resource) like verify().
bool is_as_sealed(const fs::path& checkpoint, std::uint32_t seal);

/// Asks the kernel to drop cached pages, so that the next reads come from disk.
void drop_from_cache(const fs::path& checkpoint, const Manifest& manifest);

}  // namespace trainctl::checkpoint
