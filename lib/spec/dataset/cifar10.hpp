#pragma once

#include "spec/dataset/cifar.hpp"

namespace trainctl::spec::dataset {

struct Cifar10 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-10: Photographs, 32x32 RGB, 10 classes (Krizhevsky 2009).";

  static void describe(config::Describe<Cifar10>& options) { options.include<Cifar>(); }
};

}  // namespace trainctl::spec::dataset
