#include "report/plan/plan.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/engine_library.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "launch/supervise/verdict.hpp"
#include "plan/loading.hpp"
#include "plan/ranks.hpp"
#include "study/preflight/rank_plan.hpp"
#include "study/workers/worker_tasks.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

namespace trainctl::app {
namespace {

struct PlanArguments {
  ConfigArguments config;
  bool probe = false;
  bool no_model = false;
  RanksArguments ranks;
};

/// Measures the model. A mistake of config or data ends the plan; what else goes wrong leaves it
/// with the reason in the model's place. Returns the exit code.
int measure(const PlanArguments& arguments, const spec::Loaded& loaded, report::Plan& plan) {
  try {
    const bool times_steps = arguments.probe || arguments.ranks.devices > 0;
    plan.model = study::measure_model({loaded, executable_path(), times_steps});
    plan.recomputes = plan.model->recomputes;  // what `auto` would be
    const bool shards = loaded.experiment.distributed.type == spec::Strategy::zero1;
    if (shards && arguments.ranks.fake_ranks == 0)
      plan.model->optimizer_bytes = study::optimizer_share(*plan.model, plan.ranks);
    return 0;
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code()) || error.kind() == ErrorKind::config ||
        error.kind() == ErrorKind::data)
      throw;
    plan.no_model = error.what();
    return error.exit_code();
  }
}

/// Where it can be measured, and the data does not forbid the run anyway. Returns the exit code.
int add_model(const PlanArguments& arguments, const spec::Loaded& loaded, report::Plan& plan) {
  if (arguments.no_model) {
    plan.no_model = "--no-model";
  } else if (!plan.refusal.empty()) {
    plan.no_model = "a run would not start";
  } else if (!find_engine_library()) {
    plan.no_model = "this build has no engine; build it with: cmake --build --preset release";
  } else {
    return measure(arguments, loaded, plan);
  }
  return 0;
}

/// As the file says it: what is wrong with it is told of the one that is loaded for this machine.
spec::Loaded written_experiment(const PlanArguments& arguments) {
  if (arguments.ranks.fake_ranks == 0) return {};
  config::Diagnostics ignored;
  return spec::read_experiment(arguments.config.file, arguments.config.overrides, ignored);
}

spec::Loaded load(const PlanArguments& arguments, int most_here, Context& context) {
  ConfigArguments config = arguments.config;
  for (std::string& added : overrides_of(arguments.ranks, most_here))
    config.overrides.push_back(std::move(added));
  return load_checked(config, context);
}

/// Loads the experiment for some of the ranks of --fake-ranks. Where they are refused, one rank is
/// tried: the problems are those of all the ranks, which the plan lists.
spec::Loaded load(const PlanArguments& arguments, Context& context) {
  constexpr int kMostHere = 2;  // enough to be measured as one of several
  try {
    return load(arguments, kMostHere, context);
  } catch (const Error& error) {
    if (arguments.ranks.fake_ranks < 2 || error.kind() != ErrorKind::config) throw;
  }
  context.diagnostics = {};
  return load(arguments, 1, context);
}

int exit_code_of(const report::Plan& plan, int measured) {
  if (!plan.refusal.empty()) return static_cast<int>(ErrorKind::resource);
  if (plan.fake && !plan.fake->problems.empty()) return static_cast<int>(ErrorKind::config);
  return measured;
}

/// Returns why the plan does not end with 0; empty where problems of --fake-ranks are listed in it.
std::string reason_of(const report::Plan& plan, int measured) {
  if (!plan.refusal.empty()) return "a run would not start: " + plan.refusal;
  if (measured != 0) return "the model could not be measured: " + plan.no_model;
  return plan.no_scaling.empty() ? "" : "the link could not be measured: " + plan.no_scaling;
}

int plan(const PlanArguments& arguments, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  check_ranks_options(arguments.ranks, arguments.no_model);
  const spec::Loaded loaded = load(arguments, context);
  const spec::Loaded written = written_experiment(arguments);
  print_warnings(context);
  report::Plan plan =
      plan_loading(loaded.experiment, arguments.probe ? Probe::batches : Probe::none);
  plan.config = arguments.config.file;
  if (arguments.ranks.fake_ranks > 0) plan.refused_here = std::exchange(plan.refusal, {});
  const int measured = add_model(arguments, loaded, plan);
  const int scaled = add_ranks(arguments.ranks, written, loaded, plan);
  writer_for(stderr)(report::contention_warning(plan));
  if (context.json) {
    print_json(report::plan_document(plan));
  } else {
    put(stdout, report::plan_text(plan, style_for(context, stdout)));
  }
  const int exit_code = exit_code_of(plan, measured != 0 ? measured : scaled);
  const std::string reason = reason_of(plan, measured);
  if (exit_code != 0 && !reason.empty()) print_error(context, printable_lines(reason));
  return exit_code;
}

}  // namespace

void add_plan(CLI::App& program, Context& context) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App& verb =
      add_verb(program, context,
               {"plan", "what a run would take: memory, work and time, beside what there is",
                kConfigGroup, WorkingDirectory::existing},
               [arguments, &context] { return plan(*arguments, context); });
  add_config_arguments(verb, arguments->config, context);
  verb.add_flag("--probe", arguments->probe,
                "make some batches and take some steps, and say what loader.num_workers=auto makes "
                "of their time, and how long a run would take");
  verb.add_flag("--no-model", arguments->no_model, "leave the model out: loading alone");
  add_ranks_options(verb, arguments->ranks);
  verb.footer(
      "Nothing is trained: a few steps on made-up samples, in a process of their own, tell what "
      "the model takes. With loader.num_workers=auto the table counts the most that a run may "
      "take.\n"
      "Exit codes: 0 a run would start, also where the verdict is 'exceeds', which is an estimate; "
      "2 an error in the file, or --fake-ranks found that so many "
      "ranks would be refused; 9 an error in the data; 11 a run would not start for want of "
      "memory, or the model could not be measured for want of it; 7 or 1 it could not be measured "
      "for another reason.");
}

}  // namespace trainctl::app
