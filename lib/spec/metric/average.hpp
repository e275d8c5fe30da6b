#pragma once

#include "spec/metric/answers.hpp"

#include <array>

namespace trainctl::spec::metric {

enum class Average { macro, weighted, micro, binary };
constexpr std::array<const char*, 4> enum_names(Average) {
  return {"macro", "weighted", "micro", "binary"};
}

/// What precision, recall and f1 share.
struct Averaged : OfAnswers {
  Average average = Average::macro;

  static void describe(config::Describe<Averaged>& options) {
    options.field(
        "average", &Averaged::average,
        "macro: the mean over classes that occur, or over all answers of a row; weighted: "
        "by their samples; micro: all as one; binary: class 1 of two.");
    options.include<OfAnswers>();
  }
};

}  // namespace trainctl::spec::metric
