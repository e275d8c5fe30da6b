#pragma once

#include "config/diagnostics.hpp"
#include "report/plan/plan.hpp"
#include "study/preflight/scaling_plan.hpp"
#include "study/run/run.hpp"

#include <string>

namespace trainctl::study {

/// What `trainctl plan` is asked for.
struct PlanOptions {
  bool probe = false;  // some batches and steps are timed
  bool no_model = false;
  bool has_engine = true;  // which measures the model
  ScalingOptions scaling;
};

/// Loads and checks the experiment that is planned. Throws as spec::load_experiment() does.
PlanInput load_for_plan(const Invocation& invocation, const ScalingOptions& options,
                        config::Diagnostics& diagnostics);

struct PlanResult {
  report::Plan plan;
  int exit_code = 0;
  std::string reason;  // of an exit code that is not 0; empty where the plan lists it
};

/// What a run would take on this machine. A model or link that cannot be measured leaves the plan
/// with the reason in its place. Throws Error(config), Error(data).
PlanResult make_plan(const PlanInput& input, const PlanOptions& options,
                     const fs::path& executable);

}  // namespace trainctl::study
