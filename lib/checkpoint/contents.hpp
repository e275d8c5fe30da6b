#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::checkpoint {

/// A tensor as listed in the part of a rank.
struct Tensor {
  std::string part;   // file that stores it: "rank_0.part", "best.safetensors"
  std::string group;  // "model" for "model/fc1.weight"; empty if the name has no group
  std::string name;   // "fc1.weight"
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// The content of a checkpoint or of one of its files, without the bytes of tensors.
struct Contents {
  std::optional<Manifest> manifest;  // absent for a single part
  std::vector<Tensor> tensors;       // by rank, in file order
  Json training;                     // plain values of rank 0, or null
  Json meta;                         // of a single part: the rest of its metadata
};

/// Returns "model" for "model/fc1.weight", or an empty view when there is no slash.
std::string_view group_of(std::string_view name);

/// Reads and verifies everything. Throws like verify().
Contents contents_of(const fs::path& checkpoint);

/// Reads a single file: the part of a rank, in any folder, or a manifest.
Contents contents_of_file(const fs::path& file);

/// A section of the training state, which the part of every rank contains.
struct Section {
  std::vector<std::string> groups;  // tensor groups, such as "optimizer"
  std::vector<std::string> values;  // keys of plain values under "training", such as "scheduler"
};

/// Returns the first difference of a section between two checkpoints, comparing names, dtypes,
/// shapes and all bytes; nothing if they are equal. Throws like verify() when one of them is
/// damaged.
std::optional<std::string> first_difference(const fs::path& expected, const fs::path& found,
                                            const Section& section);

}  // namespace trainctl::checkpoint
