#pragma once

#include "report/plan/plan.hpp"
#include "spec/load.hpp"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

/// What a plan is asked about more ranks than one.
struct RanksArguments {
  int devices = 0;     // 0: nothing
  int fake_ranks = 0;  // 0: nothing
  std::string link_file;
  std::string bandwidth;
  std::string latency;
};

/// Adds --devices, --fake-ranks, --link, --bandwidth and --latency.
void add_ranks_options(CLI::App& verb, RanksArguments& arguments);

/// Throws Error(config) where the options contradict each other or cannot be read.
void check_ranks_options(const RanksArguments& arguments, bool no_model);

/// What keeps a config for other machines from being refused for the devices of this one:
/// overrides for --fake-ranks, which load so many ranks at most.
std::vector<std::string> overrides_of(const RanksArguments& arguments, int most_here);

/// Adds to a plan, whose model was measured, what was asked for. `written` is the experiment
/// without overrides_of(). Returns the exit code: not 0 where the link could not be measured, whose
/// reason is then in the plan.
int add_ranks(const RanksArguments& arguments, const spec::Loaded& written,
              const spec::Loaded& loaded, report::Plan& plan);

}  // namespace trainctl::app
