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

/// What is known of a checkpoint. committed: its manifest is whole; whole: all of it was read;
/// unfinished: it has no manifest; aside: an earlier reader found it damaged and renamed it;
/// unsupported: another version of the program wrote it.
enum class State { committed, whole, damaged, unfinished, aside, unsupported };
constexpr std::array<const char*, 6> enum_names(State) {
  return {"committed", "whole", "damaged", "unfinished", "aside", "unsupported"};
}

/// A folder that is a checkpoint, or was to be one.
struct Surveyed {
  std::string name;
  State state = State::committed;
  std::optional<Moment> moment;      // nothing where it lies aside under a name of its own
  std::optional<Manifest> manifest;  // nothing where it cannot be used
  std::uint64_t bytes = 0;           // of its files that no newer one shares
  std::string why;                   // it is damaged, unfinished or unsupported
  bool is_last = false;              // where the link leads
  bool is_best = false;
};

enum class Depth { manifests, everything };

/// All that lies in the folder of a run's checkpoints: newest first, those moved aside behind.
/// Changes nothing. Throws Error(resource) where it cannot be read.
std::vector<Surveyed> survey(const fs::path& folder, Depth depth);

}  // namespace trainctl::checkpoint
