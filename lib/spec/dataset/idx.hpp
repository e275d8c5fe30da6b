#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <filesystem>

namespace trainctl::spec::dataset {

/// What the data sets in MNIST's IDX format share: four files, plain or gzipped, in one folder.
struct Idx {
  std::filesystem::path root;
  Split split = Split::train;

  static void describe(config::Describe<Idx>& options) {
    options.field("root", &Idx::root, "Folder with the four IDX files, plain or .gz.")
        .required()
        .example("data/mnist");
    options.field("split", &Idx::split, "train: 60,000 samples; test: 10,000 samples.");
  }
};

}  // namespace trainctl::spec::dataset
