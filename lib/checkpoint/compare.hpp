#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::checkpoint {

/// A part of the state, in every rank's file.
struct Section {
  std::vector<std::string> groups;  // of the tensors: "optimizer"
  std::vector<std::string> memos;   // keys of the plain values under "training": "scheduler"
};

/// The first difference between two checkpoints in a section: names, types, shapes, every byte;
/// nothing where there is none. Throws as verify() where one of them is damaged.
std::optional<std::string> first_difference(const fs::path& expected, const fs::path& found,
                                            const Section& section);

}  // namespace trainctl::checkpoint
