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

/// A tensor as the part of a rank lists it.
struct Tensor {
  std::string part;   // the file that stores it: "rank_0.part", "best.safetensors"
  std::string group;  // "model" of "model/fc1.weight"; empty: its name has none
  std::string name;   // "fc1.weight"
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// What a checkpoint holds, or one file of it, beside the bytes.
struct Contents {
  std::optional<Manifest> manifest;  // not of a part alone
  std::vector<Tensor> tensors;       // by rank, in the order of the files
  Json training;                     // the plain values of rank 0; null where there are none
  Json meta;                         // of a part alone: the rest of what it says of itself
};

/// "model" of "model/fc1.weight"; empty where there is no slash.
std::string_view group_of(std::string_view name);

/// Reads everything. Throws as verify().
Contents contents_of(const fs::path& checkpoint);

/// The same of a single file: the part of a rank, wherever it lies, or a manifest.
Contents contents_of_file(const fs::path& file);

/// A part of the state, in every rank's file.
struct Section {
  std::vector<std::string> groups;  // of the tensors: "optimizer"
  std::vector<std::string> values;  // keys of the plain values under "training": "scheduler"
};

/// The first difference between two checkpoints in a section: names, types, shapes, every byte;
/// nothing where there is none. Throws as verify() where one of them is damaged.
std::optional<std::string> first_difference(const fs::path& expected, const fs::path& found,
                                            const Section& section);

}  // namespace trainctl::checkpoint
