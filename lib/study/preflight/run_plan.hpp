#pragma once

#include "base/files.hpp"
#include "config/diagnostics.hpp"
#include "report/plan/plan.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// The options of a plan for more than one rank. The link options are as typed.
struct ScalingOptions {
  int devices = 0;     // 0: steps of several ranks are not predicted
  int fake_ranks = 0;  // 0: no run on other machines is checked
  std::string link_file;
  std::string bandwidth;
  std::string latency;
};

/// Throws Error(config) when the options contradict each other or cannot be parsed.
void check_options(const ScalingOptions& options);

/// Returns overrides for --fake-ranks, so that a config for other machines is not rejected because
/// of this machine's devices; they use at most `most_here` ranks.
std::vector<std::string> overrides_of(const ScalingOptions& options, int most_here);

/// The experiment of a plan.
struct PlanInput {
  spec::Loaded loaded;
  spec::Loaded written;  // with --fake-ranks: without overrides_of()
};

/// The options of `trainctl plan`.
struct PlanOptions {
  bool probe = false;  // time some batches and steps
  bool no_model = false;
  bool has_engine = true;  // the engine measures the model
  ScalingOptions scaling;
};

/// Loads and checks the experiment to plan. Throws as spec::load_experiment() does and, without
/// --fake-ranks, as devices_of_run().
PlanInput load_for_plan(const Invocation& invocation, const ScalingOptions& options,
                        config::Diagnostics& diagnostics);

/// The result of make_plan().
struct PlanResult {
  report::Plan plan;
  int exit_code = 0;
  std::string reason;  // for an exit code other than 0; empty if the plan contains the reason
};

/// Estimates what a run needs on this machine. If the model or link cannot be measured, the plan
/// contains the reason instead. Throws Error(config), Error(data).
PlanResult make_plan(const PlanInput& input, const PlanOptions& options,
                     const fs::path& executable);

}  // namespace trainctl::study
