#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <cstdint>

namespace trainctl::spec::dataset {

struct SyntheticImages {
  static constexpr auto kSummary =
      "Random pixels of any size with random labels, made on the fly: for measuring speed.";

  int height = 224;
  int width = 224;
  int channels = 3;
  std::int64_t classes = 1000;
  std::int64_t samples = 10'000;
  Split split = Split::train;
  std::uint64_t seed = 0;

  static void describe(config::Describe<SyntheticImages>& options) {
    options.field("height", &SyntheticImages::height, "Height in pixels.")
        .at_least(1)
        .at_most(16'384);
    options.field("width", &SyntheticImages::width, "Width in pixels.").at_least(1).at_most(16'384);
    options.field("channels", &SyntheticImages::channels, "1 for grey, 3 for RGB.")
        .at_least(1)
        .at_most(16);
    options.field("classes", &SyntheticImages::classes, "Number of classes.")
        .at_least(1)
        .at_most(1e9);
    options.field("samples", &SyntheticImages::samples, "Number of samples.")
        .at_least(1)
        .at_most(1e9);
    options.field("split", &SyntheticImages::split, "train and test have other samples.");
    options
        .field("seed", &SyntheticImages::seed, "Seed of the pixels; independent of the run's seed.")
        .at_least(0);
  }
};

}  // namespace trainctl::spec::dataset
