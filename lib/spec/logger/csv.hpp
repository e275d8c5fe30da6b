#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::logger {

struct Csv {
  static constexpr auto kSummary =
      "epochs.csv and timing.csv of the run folder, a row for each epoch; ranks.csv of several "
      "ranks.";

  static void describe(config::Describe<Csv>& /*options*/) {}
};

}  // namespace trainctl::spec::logger
