#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trainctl::spec::dataset {

struct SyntheticPhotographs {
  static constexpr auto kSummary =
      "JPEG photographs of 500x375 that trainctl draws once into a cache folder, 8 classes: for "
      "measuring how fast images load.";

  Split split = Split::train;
  std::int64_t samples = 1000;
  std::optional<std::filesystem::path> folder;

  static void describe(config::Describe<SyntheticPhotographs>& options) {
    options.field("split", &SyntheticPhotographs::split, "train and test have other samples.");
    options
        .field("samples", &SyntheticPhotographs::samples,
               "Number of samples; a thousand take about 41 MB.")
        .at_least(1)
        .at_most(1'000'000);
    options
        .field("folder", &SyntheticPhotographs::folder,
               "Folder that keeps the files; absent: trainctl/photographs in $XDG_CACHE_HOME or "
               "~/.cache.")
        .example("data/photographs");
  }
};

}  // namespace trainctl::spec::dataset
