#pragma once

#include "data/remote/local_tier.hpp"
#include "spec/experiment/experiment.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// Sets what remote paths of this process are opened through, as a mount does for the paths of a
/// folder: sources open paths and need not know where they lead. Nothing happens on disk or in the
/// network until a remote path is opened.
void mount_remote(const spec::Dataset& options);
/// The same with a tier made elsewhere; for tests.
void mount_remote(std::shared_ptr<LocalTier> tier);

/// Through which remote paths are opened; what mount_remote() said, or the defaults.
std::shared_ptr<LocalTier> remote_tier();

/// The first of the paths that there is. Of remote ones, those with a local copy are tried first,
/// so that nobody is asked for a name that is known to be absent.
std::optional<std::filesystem::path> first_existing(
    const std::vector<std::filesystem::path>& paths);

/// The paths that match the last part of a pattern with * and ?; throws Error(data) where there are
/// none. Remote ones are listed.
std::vector<std::filesystem::path> matching_paths(const std::filesystem::path& pattern);

}  // namespace trainctl::data
