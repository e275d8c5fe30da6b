#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "launch/process/signals.hpp"
#include "report/text/job_results.hpp"

namespace trainctl::app {
namespace {

struct EvalFlags {
  JobArguments job;
  std::string out;
  QuantizeFlags quantize;
};

/// The quantized operators run on one CPU.
void set_device(spec::Trainer& trainer) {
  ENSURE(config, trainer.accelerator != spec::Accelerator::gpu,
         "--quantize runs on a CPU, but trainer.accelerator is gpu\nhint: add "
         "trainer.accelerator=cpu");
  trainer.accelerator = spec::Accelerator::cpu;
  trainer.devices = {.value = 1, .gpus = {}};
  trainer.num_nodes = 1;
}

int evaluate(const EvalFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  study::RunRequest request = job_request(flags.job, spec::JobKind::evaluate, context);
  ENSURE(
      config, request.loaded.experiment.task.type != "gan",
      "eval computes the loss, but that of the task 'gan' needs its discriminator, which weights "
      "files do not contain\nhint: 'trainctl predict' makes images");
  request.job.quantize = quantization_of(flags.quantize);
  if (request.job.quantize) set_device(request.loaded.experiment.trainer);
  print_warnings(context);
  const launch::SignalGuard guard;  // until the scratch folder is removed
  std::optional<study::ScratchFolder> scratch;
  if (flags.out.empty()) scratch.emplace(study::temporary_folder());
  study::RunOutcome outcome = run_job(request, scratch ? scratch->path() : fs::path(flags.out),
                                      scratch ? Tables::none : Tables::files, context);
  if (outcome.ending.exit_code != 0)
    return report_failed_job(outcome, scratch ? &*scratch : nullptr, context);
  ENSURE(unexpected, outcome.record.evaluated.has_value(), "no rank reported its metrics");
  if (context.json) return print_json(outcome.result);
  put(stdout, report::evaluation_text(outcome.record, style_for(context, stdout)));
  return 0;
}

}  // namespace

void add_eval(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(
      program, context,
      {"eval", "evaluate a checkpoint on one split", kTrainGroup, WorkingDirectory::existing},
      evaluate);
  add_job_arguments(verb, flags.job, context);
  add_options(verb, {{"--out", flags.out, "DIR",
                      "write results and logs to a new or empty folder (default: only print)"}});
  add_quantize_flags(verb, flags.quantize);
  verb.footer(
      "Examples:\n"
      "  trainctl eval runs/mnist-ffn/latest --checkpoint best --split test\n"
      "  trainctl eval runs/mnist-ffn/latest --checkpoint best --quantize int8");
}

}  // namespace trainctl::app
