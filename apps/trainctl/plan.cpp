#include "cli/verb.hpp"
#include "program.hpp"
#include "study/preflight/run_plan.hpp"

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
  add_options(verb,
              {{"--devices", options.devices, "N",
                "foretell steps of so many ranks, of 64 and of 1,024, from a timed step and a "
                "link",
                whole_number(2, kMostRanks)},
               {"--link", options.link_file, "FILE",
                "the link between them, from 'doctor --link --json'; else it is measured now"},
               {"--bandwidth", options.bandwidth, "RATE",
                "in its place: bytes a second between two ranks, 25GB/s or 200Gbit/s"},
               {"--latency", options.latency, "TIME", "with it: time of a message, 20us"},
               {"--fake-ranks", options.fake_ranks, "N",
                "check a run of so many ranks here, without their devices: steps, last batches, "
                "buckets, memory",
                whole_number(1, kMostRanks)}});
}

}  // namespace

void add_plan(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"plan", "what a run would take: memory, work and time, beside what there is",
                kConfigGroup, WorkingDirectory::existing},
               plan);
  add_config_arguments(verb, flags.config, context);
  add_options(verb,
              {{"--probe", flags.options.probe,
                "make some batches and take some steps, and say what loader.num_workers=auto makes "
                "of their time, and how long a run would take"},
               {"--no-model", flags.options.no_model, "leave the model out: loading alone"}});
  add_scaling_options(verb, flags.options.scaling);
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
