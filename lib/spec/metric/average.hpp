#pragma once

#include "config/describe.hpp"

#include <array>

namespace trainctl::spec::metric {

enum class Average { macro, weighted, micro, binary };
constexpr std::array<const char*, 4> enum_names(Average) {
  return {"macro", "weighted", "micro", "binary"};
}

/// What precision, recall and f1 share.
struct Averaged {
  Average average = Average::macro;

  static void describe(config::Describe<Averaged>& options) {
    options.field("average", &Averaged::average,
                  "macro: the mean over classes that occur; weighted: by their samples; micro: all "
                  "classes as one; binary: class 1 of two.");
  }
};

}  // namespace trainctl::spec::metric
