#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "launch/process/signals.hpp"
#include "report/text/job_results.hpp"

namespace trainctl::app {
namespace {

struct EvalFlags {
  JobArguments job;
  std::string out;
};

int evaluate(const EvalFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  const study::RunRequest request = job_request(flags.job, spec::JobKind::evaluate, context);
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
  verb.footer(
      "Example:\n"
      "  trainctl eval runs/mnist-ffn/latest --checkpoint best --split test");
}

}  // namespace trainctl::app
