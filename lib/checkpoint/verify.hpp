#pragma once

#include "base/files.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::checkpoint {

/// The manifest of a checkpoint's folder. Throws Error(checkpoint) where it is missing, damaged or
/// says another step than the folder's name, Error(resource) where it may not be read.
Manifest read_manifest(const fs::path& checkpoint);

/// A rank's file, whole and the one that was committed. Throws as verify().
container::File read_part(const fs::path& checkpoint, const Manifest::Part& part);

/// Returns the CRC-32C of a file, a few megabytes of which are in memory at a time. Throws
/// Error(resource) where it cannot be read.
std::uint32_t checksum_of_file(const fs::path& path);

/// Checks length and checksum of a file of weights that the checkpoint shares. Throws as verify().
void check_shared_file(const fs::path& checkpoint, const Manifest::SharedGroup& shared);

/// Reads everything, and keeps little of it. Throws Error(checkpoint) naming the file and what is
/// wrong with it, Error(resource) where it may not be read, which says nothing of the checkpoint.
Manifest verify(const fs::path& checkpoint);

/// Why the checkpoint does not verify; nothing where it does. Throws Error(resource) as verify().
std::optional<std::string> damage(const fs::path& checkpoint);

/// Of a manifest, from its first bytes: as long as it is the same, the parts are to be the same.
/// Throws Error(checkpoint), Error(resource).
std::uint32_t seal_of(const fs::path& checkpoint);

/// The manifest is still the one with that seal, and the parts have the lengths that it says. Their
/// content is not read. Throws Error(resource) as verify().
bool is_as_sealed(const fs::path& checkpoint, std::uint32_t seal);

/// What is read next comes from the disk, as far as the kernel agrees.
void drop_from_cache(const fs::path& checkpoint, const Manifest& manifest);

}  // namespace trainctl::checkpoint
