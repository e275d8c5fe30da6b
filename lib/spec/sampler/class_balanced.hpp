#pragma once

#include "spec/sampler/drawn.hpp"

namespace trainctl::spec::sampler {

struct ClassBalanced : Drawn {
  static constexpr auto kSummary = "Draws with replacement so that every class is equally likely.";

  static void describe(config::Describe<ClassBalanced>& options) { options.include<Drawn>(); }
};

}  // namespace trainctl::spec::sampler
