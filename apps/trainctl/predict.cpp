#include "base/error.hpp"
#include "base/strings.hpp"
#include "context.hpp"
#include "data/check.hpp"
#include "data/roles.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "launch/verdict.hpp"
#include "study/predictions.hpp"
#include "task_arguments.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

struct PredictFlags {
  TaskArguments task;
  std::string out;
  std::string outputs;
  std::string format;
  bool force = false;
};

/// Decides on the file by what the headers of the split tell, before anything is computed.
study::PredictionPlan plan_for(const PredictFlags& flags, const study::RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  const spec::DataSplit split = spec::evaluated_split(experiment, request.task.split);
  const data::SplitCheck check = data::check_split(split, spec::CacheMode::none);
  ENSURE(data, check.facts.has_value(), "dataset.{} cannot be read", request.task.split);
  const data::Roles roles = data::roles_of(check.facts->layout);
  ENSURE(config, roles.kind.targets != spec::Targets::tokens,
         "predict writes one row for each sample, and a model of tokens gives one for each token; "
         "'trainctl eval' tells its loss and metrics");
  study::PredictionWish wish{flags.out, {}, flags.format, flags.force};
  if (!flags.outputs.empty()) wish.outputs = trainctl::split(flags.outputs, ',');
  study::PredictionPlan plan =
      plan_predictions(wish, study::meaning_of(experiment.loss, roles.kind.targets));
  const std::int64_t samples = check.facts->samples;
  const std::int64_t outputs = roles.outputs(check.facts->classes);
  study::check_room(plan.file, study::known_bytes(plan, samples, outputs) +
                                   study::part_bytes(samples, outputs,
                                                     check.facts->layout[roles.target].bytes()));
  return plan;
}

/// Throws what a run ends with on such a signal.
void throw_on_signal(launch::SignalGuard& guard) {
  const std::vector<int> signals = guard.take();
  if (signals.empty()) return;
  throw Error(signals.front() == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated,
              "stopped by " + launch::signal_name(signals.front()));
}

std::vector<std::string> names_of(const study::PredictionPlan& plan) {
  std::vector<std::string> names;
  for (const study::Output output : plan.outputs)
    names.emplace_back(enum_names(output).at(static_cast<std::size_t>(output)));
  return names;
}

void tell(const study::PredictionPlan& plan, const study::RunOutcome& outcome,
          const Context& context) {
  const std::int64_t rows = outcome.record.evaluated->samples;
  const std::vector<std::string> outputs = names_of(plan);
  if (context.json) {
    Json document = outcome.result;
    document["out"] = plan.file.string();
    document["format"] = enum_names(plan.format).at(static_cast<std::size_t>(plan.format));
    document["outputs"] = outputs;
    document["rows"] = rows;
    print_json(document);
  } else {
    print(fmt::format("{}: {} rows of {} on {}", printable(plan.file.string()),
                      with_thousands(rows), join(outputs, ", "), outcome.record.evaluated->split));
  }
}

int predict(const PredictFlags& flags, Context& context) {
  ENSURE(config, !flags.out.empty(),
         "--out is missing: name the file to write, with .csv, .npy or .jsonl at its end");
  const study::RunRequest request = task_request(flags.task, spec::TaskKind::predict, context);
  const study::PredictionPlan plan = plan_for(flags, request);
  print_warnings(context);
  launch::SignalGuard guard;  // from here to the end of the scratch folder
  // Beside the file: what the ranks write takes as much room as the file.
  study::ScratchFolder scratch(fs::absolute(plan.file).parent_path());
  study::RunOutcome outcome = run_task(request, scratch.path(), Tables::none, context);
  if (outcome.ending.exit_code != 0) return report_failed_task(outcome, &scratch, context);
  try {
    ENSURE(unexpected, outcome.record.evaluated.has_value(), "no rank told what it predicted");
    const int ranks = static_cast<int>(outcome.record.hellos.size());
    study::write_predictions({outcome.folder, ranks, *outcome.record.evaluated}, plan,
                             [&] { throw_on_signal(guard); });
  } catch (Error& error) {
    if (launch::is_stop_code(error.exit_code())) throw;
    scratch.keep();
    error.add_frame(fmt::format("what was predicted is kept in {}", scratch.path().string()));
    throw;
  }
  tell(plan, outcome, context);
  return 0;
}

}  // namespace

void add_predict(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<PredictFlags>();
  CLI::App& verb =
      add_verb(program, context,
               {"predict", "a file with the outputs of a checkpoint for each sample", kTrainGroup},
               [flags, &context] { return predict(*flags, context); });
  add_task_arguments(verb, flags->task);
  verb.add_option("--out", flags->out, "the file to write")->type_name("FILE");
  verb.add_option("--outputs", flags->outputs,
                  "some of logits, probabilities, class, prediction, with commas between")
      ->type_name("LIST");
  verb.add_option("--format", flags->format, "csv, npy or jsonl; by default as FILE ends")
      ->type_name("FORMAT");
  verb.add_flag("--force", flags->force, "replace FILE where it exists");
  verb.footer("  trainctl predict runs/mnist-ffn/latest --checkpoint best --out digits.csv");
}

}  // namespace trainctl::app
