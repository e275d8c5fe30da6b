#pragma once

#include "spec/dataset/idx.hpp"

namespace trainctl::spec::dataset {

struct Mnist : Idx {
  static constexpr auto kSummary =
      "MNIST: Handwritten digits, 28x28 grey, 10 classes (LeCun et al. 1998).";

  static void describe(config::Describe<Mnist>& options) { options.include<Idx>(); }
};

}  // namespace trainctl::spec::dataset
