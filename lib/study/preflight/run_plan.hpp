#pragma once

#include "base/files.hpp"
#include "config/diagnostics.hpp"
#include "report/plan/plan.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// What a plan is asked about more ranks than one. The link is as typed.
struct ScalingOptions {
  int devices = 0;     // 0: no steps of several ranks are predicted
  int fake_ranks = 0;  // 0: no run of other machines is checked
  std::string link_file;
  std::string bandwidth;
  std::string latency;
};

/// Throws Error(config) where the options contradict each other or cannot be read.
void check_options(const ScalingOptions& options);

/// Overrides for --fake-ranks that keep a config for other machines from being refused for the
/// devices of this one; they load `most_here` ranks at most.
std::vector<std::string> overrides_of(const ScalingOptions& options, int most_here);

/// The experiment of a plan.
struct PlanInput {
  spec::Loaded loaded;
  spec::Loaded written;  // with --fake-ranks: without overrides_of()
};

/// Adds the answers to a plan whose model was measured. Returns the exit code: not 0 where the link
/// could not be measured, whose reason is then in the plan.
int add_scaling(const ScalingOptions& options, const PlanInput& input, const fs::path& executable,
                report::Plan& plan);

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
