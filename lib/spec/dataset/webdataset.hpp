#pragma once

#include "config/schema/describe.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::spec::dataset {

struct Webdataset {
  static constexpr auto kSummary =
      "Images in tar shards as the webdataset library packs them, read in place and shuffled "
      "exactly.";

  std::vector<std::filesystem::path> shards;
  std::vector<std::string> image{"jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff"};
  std::string label = "cls";
  std::string label_key = "label";
  std::vector<std::string> classes;

  static void describe(config::Describe<Webdataset>& options) {
    options
        .field("shards", &Webdataset::shards,
               "The .tar files in their order; {000..099} stands for a range of numbers, * and ? "
               "in the "
               "name for what the folder or bucket holds, sorted.")
        .required()
        .not_empty()
        .example("[\"data/train-{000..146}.tar\"]");
    options
        .field("image", &Webdataset::image,
               "Suffixes of the members that are images. 16-bit gray PNG and TIFF images are read "
               "as their upper 8 bits.")
        .not_empty();
    options
        .field("label", &Webdataset::label,
               "Suffix of the members that hold the label: cls, txt or json.")
        .not_empty();
    options.field("label_key", &Webdataset::label_key, "Where a json member keeps the label.")
        .not_empty();
    options
        .field("classes", &Webdataset::classes,
               "Class names in the order of their numbers; otherwise the names found, sorted.")
        .example("[crow, owl]");
  }
};

}  // namespace trainctl::spec::dataset
