#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::logger {

struct Jsonl {
  static constexpr auto kSummary =
      "metrics.jsonl of the run folder: a line of JSON every log_every_n_steps and each epoch.";

  static void describe(config::Describe<Jsonl>& /*options*/) {}
};

}  // namespace trainctl::spec::logger
