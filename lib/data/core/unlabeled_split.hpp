#pragma once

#include "data/core/registry.hpp"
#include "spec/experiment/experiment.hpp"

#include <filesystem>

namespace trainctl::data {

/// Pictures that no experiment names, as a split, and the stages that open it. Their labels mean
/// nothing: each is 0.
struct Unlabeled {
  spec::DataSplit split;
  Catalog catalog;
};

/// `input`: a folder, whose pictures are found by their suffix, at any depth, in the order of
/// scan_pictures(); one picture; or a list with a path on each line, in its order, relative to the
/// list's folder. Reads nothing yet: what opens the split throws Error(data) where there are no
/// pictures, or Error(config) where there is no such input.
Unlabeled unlabeled_split(const std::filesystem::path& input,
                          const std::vector<config::Stage>& transforms);

}  // namespace trainctl::data
