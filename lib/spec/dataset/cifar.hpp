#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <filesystem>

namespace trainctl::spec::dataset {

/// What CIFAR-10 and CIFAR-100 share.
struct Cifar {
  std::filesystem::path root;
  Split split = Split::train;

  static void describe(config::Describe<Cifar>& options) {
    options
        .field("root", &Cifar::root,
               "Folder with the binary version: its .tar.gz, or the unpacked .bin files there or "
               "in their folder.")
        .required()
        .example("data/cifar10");
    options.field("split", &Cifar::split, "train: 50,000 samples; test: 10,000 samples.");
  }
};

}  // namespace trainctl::spec::dataset
