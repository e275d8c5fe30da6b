#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::spec::dataset {

struct Npy {
  static constexpr auto kSummary =
      "Arrays that numpy.save wrote: images or features, and labels; mapped where they lie.";

  std::optional<std::filesystem::path> images;
  std::optional<std::filesystem::path> features;
  std::filesystem::path labels;
  std::optional<std::int64_t> classes;

  static void describe(config::Describe<Npy>& options) {
    options.field("images", &Npy::images, "Images, uint8 of shape (N, H, W) or (N, H, W, C).")
        .example("data/x_train.npy");
    options
        .field("features", &Npy::features,
               "In place of images: features of any shape (N, ...) and number type; they become "
               "32-bit floats.")
        .example("data/x_train.npy");
    options
        .field("labels", &Npy::labels,
               "Labels: whole numbers of shape (N) are classes; floats of shape (N) or (N, K) are "
               "targets.")
        .required()
        .example("data/y_train.npy");
    options
        .field("classes", &Npy::classes,
               "Number of classes, when the labels do not hold the highest.")
        .at_least(1)
        .at_most(1e9)
        .example("10");
  }
};

}  // namespace trainctl::spec::dataset
