#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::spec::dataset {

struct SyntheticDigits {
  static constexpr auto kSummary =
      "Digits rendered by trainctl itself: 28x28 grey, 10 classes, 60,000 + 10,000 samples; "
      "nothing to download.";

  Split split = Split::train;
  std::optional<std::int64_t> samples;
  std::uint64_t seed = 0;

  static void describe(config::Describe<SyntheticDigits>& options) {
    options.field("split", &SyntheticDigits::split,
                  "train: 60,000 samples; test: 10,000 other samples.");
    options
        .field("samples", &SyntheticDigits::samples, "Number of samples, when not the whole split.")
        .at_least(1)
        .at_most(1'000'000)
        .example("2000");
    options
        .field("seed", &SyntheticDigits::seed,
               "Seed of the rendering; independent of the run's seed.")
        .at_least(0);
  }
};

}  // namespace trainctl::spec::dataset
