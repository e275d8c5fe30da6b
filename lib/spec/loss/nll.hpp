#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::loss {

struct Nll {
  static constexpr auto kSummary =
      "Negative log likelihood of the class where the model's outputs are log-probabilities, as "
      "torch's NLLLoss.";

  std::vector<double> weight;
  std::optional<std::int64_t> ignore_index;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(config::Describe<Nll>& options) {
    options.field("weight", &Nll::weight, "Weight of each class; empty: all 1.")
        .at_least(0)
        .example("[1, 2]");
    options.field("ignore_index", &Nll::ignore_index, "Rows of this label do not count.");
  }
};

}  // namespace trainctl::spec::loss
