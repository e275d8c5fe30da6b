#pragma once

#include "config/describe.hpp"

namespace trainctl::spec::loss {

struct Mse {
  static constexpr auto kSummary =
      "Mean squared error of the numbers to learn; classes are compared as one-hot vectors.";

  static void describe(config::Describe<Mse>&) {}
};

}  // namespace trainctl::spec::loss
