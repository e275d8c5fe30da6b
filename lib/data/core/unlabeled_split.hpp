#pragma once

#include "data/core/registry.hpp"
#include "spec/experiment/experiment.hpp"

#include <filesystem>

namespace trainctl::data {

/// A split of images without labels, and the catalog that opens it. Every label is 0 and
/// meaningless.
struct Unlabeled {
  spec::DataSplit split;
  Catalog catalog;
};

/// `input` is a folder, searched recursively for image suffixes in the order of scan_pictures();
/// one image; or a list with one path per line, in its order, relative to the list's folder. Reads
/// nothing yet: opening the split throws Error(data) when there are no images, or Error(config)
/// when `input` does not exist.
Unlabeled unlabeled_split(const std::filesystem::path& input,
                          const std::vector<config::Stage>& transforms);

}  // namespace trainctl::data
