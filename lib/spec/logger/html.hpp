#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::logger {

struct Html {
  static constexpr auto kSummary =
      "report.html of the run folder: one page with curves, time and configuration that needs no "
      "network.";

  static void describe(config::Describe<Html>& /*options*/) {}
};

}  // namespace trainctl::spec::logger
