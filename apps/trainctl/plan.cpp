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
         "--devices measures the model, but --no-model is given\nhint: remove --no-model");
  ENSURE(
      resource, !has_devices || options.has_engine,
      "--devices requires the training engine (libtrainctl_engine.so), which this build does not "
      "have\nhint: build it with cmake --build --preset release");
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
                "predict the step time on N devices (also shown: 64 and 1,024)",
                whole_number(2, kMostRanks)},
               {"--link", options.link_file, "FILE",
                "network measurements of 'doctor --link --json' (default: measure now)"},
               {"--bandwidth", options.bandwidth, "RATE",
                "bandwidth between ranks instead of --link, for example 25GB/s or 200Gbit/s"},
               {"--latency", options.latency, "TIME",
                "with --bandwidth: latency of a message, for example 20us"},
               {"--fake-ranks", options.fake_ranks, "N",
                "check a run on N ranks without having N devices", whole_number(1, kMostRanks)}});
}

}  // namespace

void add_plan(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(program, context,
                                      {"plan", "predict the memory, FLOPs and time of a run",
                                       kConfigGroup, WorkingDirectory::existing},
                                      plan);
  add_config_arguments(verb, flags.config, context);
  add_options(verb, {{"--probe", flags.options.probe,
                      "time some batches and steps to predict speed and duration"},
                     {"--no-model", flags.options.no_model,
                      "plan the data loading only, without the model"}});
  add_scaling_options(verb, flags.options.scaling);
  verb.footer(
      "Trains nothing. A separate process runs a few steps on synthetic samples to measure\n"
      "memory. With loader.num_workers=auto, the table assumes the maximum number of\n"
      "workers.\n"
      "Exit codes: 0 a run would start (if the result is 'exceeds', it may run out of memory in a\n"
      "step); 2 an error in the file, or the run of --fake-ranks would be rejected; 9 an error in\n"
      "the data; 11 too little memory to start a run or to measure the model; 1 or 7 the model\n"
      "could not be measured for another reason.");
}

}  // namespace trainctl::app
