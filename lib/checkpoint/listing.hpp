#pragma once

#include "base/files.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::checkpoint {

/// The state of a checkpoint. committed: its manifest is valid; whole: all files were verified;
/// unfinished: it has no manifest; quarantined: an earlier reader found it damaged and renamed it;
/// unsupported: another version of the program wrote it.
enum class State { committed, whole, damaged, unfinished, quarantined, unsupported };
constexpr std::array<const char*, 6> enum_names(State) {
  return {"committed", "whole", "damaged", "unfinished", "quarantined", "unsupported"};
}

/// A folder that is a complete or unfinished checkpoint.
struct CheckpointInfo {
  std::string name;
  State state = State::committed;
  std::optional<Moment> moment;      // absent for a renamed folder with an unknown name
  std::optional<Manifest> manifest;  // absent when it cannot be used
  std::uint64_t bytes = 0;           // of files that no newer checkpoint shares
  std::string why;                   // why it is damaged, unfinished or unsupported
  bool is_last = false;              // target of the link `last`
  bool is_best = false;
};

/// `manifests` reads only the manifests; `everything` also verifies all parts.
enum class Depth { manifests, everything };

/// Lists the checkpoint folder of a run: newest first, then renamed checkpoints. Changes nothing.
/// Throws Error(resource) when the folder cannot be read.
std::vector<CheckpointInfo> survey(const fs::path& folder, Depth depth);

}  // namespace trainctl::checkpoint
