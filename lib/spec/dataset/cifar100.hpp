#pragma once

#include "spec/dataset/cifar.hpp"

#include <array>

namespace trainctl::spec::dataset {

enum class CifarLabel { fine, coarse };
constexpr std::array<const char*, 2> enum_names(CifarLabel) { return {"fine", "coarse"}; }

struct Cifar100 : Cifar {
  static constexpr auto kSummary =
      "CIFAR-100: Photographs, 32x32 RGB, 100 classes in 20 groups (Krizhevsky 2009).";

  CifarLabel label = CifarLabel::fine;

  static void describe(config::Describe<Cifar100>& options) {
    options.include<Cifar>();
    options.field("label", &Cifar100::label,
                  "fine: the 100 classes; coarse: the 20 groups of five.");
  }
};

}  // namespace trainctl::spec::dataset
