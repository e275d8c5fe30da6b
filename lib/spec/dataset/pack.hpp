#pragma once

#include "config/describe.hpp"

#include <filesystem>

namespace trainctl::spec::dataset {

struct Pack {
  static constexpr auto kSummary = "Images in one file, written by `trainctl data pack`.";

  std::filesystem::path path;
  config::Stage source;

  static void describe(config::Describe<Pack>& options) {
    options.field("path", &Pack::path, "The pack file.").required().example("data/train.pack");
    options.stage("source", &Pack::source, "dataset",
                  "The data set it was made from; a pack of other samples is then refused.");
  }
};

}  // namespace trainctl::spec::dataset
