#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/engine_library.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "study/preflight/run_plan.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <string>

namespace trainctl::app {
namespace {

struct PlanFlags {
  ConfigArguments config;
  study::PlanOptions options;
};

void check_flags(const study::PlanOptions& options) {
  const bool has_devices = options.scaling.devices > 0;
  ENSURE(config, !has_devices || !options.no_model,
         "--devices needs a measured step: leave --no-model out");
  ENSURE(resource, !has_devices || options.has_engine,
         "--devices needs a measured step, and this build has no engine; build it with: cmake "
         "--build --preset release");
  study::check_options(options.scaling);
}

int plan(PlanFlags flags, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  study::PlanOptions& options = flags.options;
  options.has_engine = find_engine_library().has_value();
  check_flags(options);
  const study::Invocation call = invocation_of(flags.config, context);
  const study::PlanInput input = study::load_for_plan(call, options.scaling, context.diagnostics);
  print_warnings(context);
  study::PlanResult result = study::make_plan(input, options, call.executable);
  result.plan.config = flags.config.file;
  writer_for(stderr)(report::contention_warning(result.plan));
  if (context.json) {
    print_json(report::plan_document(result.plan));
  } else {
    put(stdout, report::plan_text(result.plan, style_for(context, stdout)));
  }
  if (result.exit_code != 0 && !result.reason.empty())
    print_error(context, printable_lines(result.reason));
  return result.exit_code;
}

void add_scaling_options(CLI::App& verb, study::ScalingOptions& options) {
  constexpr int kMostRanks = 1 << 20;
  verb.add_option("--devices", options.devices,
                  "foretell steps of so many ranks, of 64 and of 1,024, from a timed step and a "
                  "link")
      ->type_name("N")
      ->check(whole_number(2, kMostRanks));
  verb.add_option("--link", options.link_file,
                  "the link between them, from 'doctor --link --json'; else it is measured now")
      ->type_name("FILE");
  verb.add_option("--bandwidth", options.bandwidth,
                  "in its place: bytes a second between two ranks, 25GB/s or 200Gbit/s")
      ->type_name("RATE");
  verb.add_option("--latency", options.latency, "with it: time of a message, 20us")
      ->type_name("TIME");
  verb.add_option("--fake-ranks", options.fake_ranks,
                  "check a run of so many ranks here, without their devices: steps, last batches, "
                  "buckets, memory")
      ->type_name("N")
      ->check(whole_number(1, kMostRanks));
}

}  // namespace

void add_plan(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App& verb =
      add_verb(program, context,
               {"plan", "what a run would take: memory, work and time, beside what there is",
                kConfigGroup, WorkingDirectory::existing},
               [flags, &context] { return plan(*flags, context); });
  add_config_arguments(verb, flags->config, context);
  verb.add_flag("--probe", flags->options.probe,
                "make some batches and take some steps, and say what loader.num_workers=auto makes "
                "of their time, and how long a run would take");
  verb.add_flag("--no-model", flags->options.no_model, "leave the model out: loading alone");
  add_scaling_options(verb, flags->options.scaling);
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
