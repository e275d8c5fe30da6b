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

struct Mnist : Idx {
  static constexpr auto kSummary =
      "MNIST: Handwritten digits, 28x28 grey, 10 classes (LeCun et al. 1998).";

  static void describe(config::Describe<Mnist>& options) { options.include<Idx>(); }
};

struct FashionMnist : Idx {
  static constexpr auto kSummary =
      "Fashion-MNIST: Articles of clothing, 28x28 grey, 10 classes (Xiao et al. 2017).";

  static void describe(config::Describe<FashionMnist>& options) { options.include<Idx>(); }
};

}  // namespace trainctl::spec::dataset
