#pragma once

#include "spec/scheduler/schedule.hpp"

#include <vector>

namespace trainctl::spec::scheduler {

struct SequentialLr {
  static constexpr auto kSummary =
      "One scheduler after another, as torch's SequentialLR: each counts from its own beginning.";

  std::vector<config::Stage> schedulers;
  std::vector<std::int64_t> milestones;
  Interval interval = Interval::epoch;

  static void describe(config::Describe<SequentialLr>& options) {
    options
        .stages("schedulers", &SequentialLr::schedulers, "scheduler",
                "The schedulers, in this order.")
        .required()
        .not_empty()
        .example(
            "[{type: linear_lr, start_factor: 0.1, end_factor: 1, total_iters: 5}, "
            "cosine_annealing_lr]");
    options
        .field("milestones", &SequentialLr::milestones,
               "Where the second one begins, the third, and so on.")
        .required()
        .at_least(1)
        .example("[5]");
    options.field("interval", &SequentialLr::interval,
                  "What the milestones count: epochs or optimizer steps.");
  }
};

}  // namespace trainctl::spec::scheduler
