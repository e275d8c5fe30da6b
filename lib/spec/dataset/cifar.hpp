#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
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

struct Cifar10 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-10: Photographs, 32x32 RGB, 10 classes (Krizhevsky 2009).";

  static void describe(config::Describe<Cifar10>& options) { options.include<Cifar>(); }
};

enum class CifarLabel { fine, coarse };
constexpr std::array<const char*, 2> enum_names(CifarLabel) { return {"fine", "coarse"}; }

struct Cifar100 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-100: Photographs, 32x32 RGB, 100 classes in 20 groups (Krizhevsky 2009).";

  CifarLabel label = CifarLabel::fine;

  static void describe(config::Describe<Cifar100>& options) {
    options.include<Cifar>();
    options.field("label", &Cifar100::label,
                  "fine: the 100 classes; coarse: the 20 groups of five.");
  }
};

}  // namespace trainctl::spec::dataset
