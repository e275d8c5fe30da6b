#pragma once

#include "spec/dataset/idx.hpp"

namespace trainctl::spec::dataset {

struct FashionMnist : Idx {
  static constexpr auto kSummary =
      "Fashion-MNIST: Articles of clothing, 28x28 grey, 10 classes (Xiao et al. 2017).";

  static void describe(config::Describe<FashionMnist>& options) { options.include<Idx>(); }
};

}  // namespace trainctl::spec::dataset
