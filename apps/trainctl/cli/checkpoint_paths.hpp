#pragma once

#include "base/files.hpp"

#include <string>

namespace trainctl::app {

/// Where the checkpoints lie: `path` may be a run folder or that folder itself. Throws
/// Error(checkpoint) where it is no folder, or a checkpoint.
fs::path checkpoints_folder(const std::string& path);

/// The folder of one checkpoint: `path` is it, or a link to it; a run folder stands for its newest
/// one. Nothing is read but names. Throws Error(checkpoint) where there is none.
fs::path one_checkpoint(const std::string& path);

}  // namespace trainctl::app
