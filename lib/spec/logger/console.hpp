#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::logger {

struct Console {
  static constexpr auto kSummary = "The table of epochs on stdout, the bar and warnings on stderr.";

  static void describe(config::Describe<Console>& /*options*/) {}
};

}  // namespace trainctl::spec::logger
