#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "data/core/batch.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/supervisor.hpp"
#include "launch/supervise/verdict.hpp"
#include "study/predict/predictions.hpp"

#include <csignal>

namespace trainctl::app {
namespace {

struct PredictFlags {
  JobArguments job;
  std::string out;
  std::string outputs;
  std::string format;
  bool force = false;
};

/// Facts from the headers of dataset.train and of the data to predict.
struct Headers {
  data::Facts train;
  data::Facts predicted;
};

data::Facts facts_in(data::SplitCheck check) {
  for (const data::Problem& problem : check.problems) throw Error(problem.kind, problem.message);
  return *std::move(check.facts);
}

data::Facts facts_of(const spec::Experiment& experiment, const std::string& split) {
  return in_context("dataset." + split, [&] {
    return facts_in(
        data::check_split(spec::evaluated_split(experiment, split), spec::CacheMode::none));
  });
}

data::Facts facts_of_input(const spec::Experiment& experiment, const fs::path& input) {
  const data::Unlabeled found =
      data::unlabeled_split(input, spec::evaluating_transforms(experiment));
  return facts_in(data::check_split(found.split, spec::CacheMode::none, found.catalog));
}

std::string shape_text(const data::Layout& layout) {
  const data::Field input = data::without_mask(layout, data::roles_of(layout).input);
  return fmt::format("{}", fmt::join(input.shape, "x"));
}

/// Throws if the images do not have the form of the training samples.
void check_pictures(const Headers& headers) {
  ENSURE(config, headers.train.image() != nullptr,
         "--input requires a model of images, but the samples of dataset.train are not "
         "images\nhint: use --split instead of --input");
  ENSURE(
      config, data::has_same_inputs(headers.predicted.layout, headers.train.layout),
      "--input: the images must be {1} after the transforms, as in dataset.train, got {0}\nhint: "
      "resize the images with a transform (image files are read with 3 channels)",
      shape_text(headers.predicted.layout), shape_text(headers.train.layout));
}

Headers read_headers(const study::RunRequest& request) {
  const spec::Experiment& experiment = request.loaded.experiment;
  const spec::Job& job = request.job;
  if (job.input.empty()) return {facts_of(experiment, "train"), facts_of(experiment, job.split)};
  Headers headers{facts_of(experiment, "train"), facts_of_input(experiment, job.input)};
  check_pictures(headers);
  return headers;
}

/// Returns what the model was trained on, and whether the labels of the data are of the same kind.
spec::LearnedTargets learned_targets_of(const Headers& headers, const spec::Job& job) {
  const data::Facts& train = headers.train;
  const data::Facts& found = headers.predicted;
  const data::Roles roles = data::roles_of(train.layout);
  ENSURE(config, roles.kind.targets != spec::Targets::tokens,
         "predict writes one row or mask per sample, but a model of {0} has one output for each of "
         "the {0}\nhint: use 'trainctl eval' for its loss and metrics",
         enum_name(roles.kind.targets));
  // Classes without names are identified by their number.
  const bool same_names = train.class_names.empty() || found.class_names.empty() ||
                          train.class_names == found.class_names;
  const bool labeled = job.input.empty() && train.layout == found.layout &&
                       train.classes == found.classes && same_names;
  return {roles.kind.targets, roles.outputs(train.classes), labeled};
}

/// Returns the targets of the task, which are those of the data unless the task replaces them.
spec::LearnedTargets targets_of(const study::RunRequest& request, const data::Facts& train) {
  const spec::LearnedTargets& learned = *request.job.learned;
  data::Roles roles = data::roles_of(train.layout);
  const spec::ModelInput input = spec::model_input(
      request.loaded.experiment.task, {roles.kind, std::move(roles.input_shape), learned.outputs});
  return {input.kind.targets, input.outputs,
          learned.labeled && input.kind.targets == learned.targets};
}

/// Warns about labels that exist but are not written.
void warn_of_labels(const study::RunRequest& request, bool replaces_targets, Context& context) {
  const spec::Job& job = request.job;
  const bool has_rows = spec::has_one_row(job.learned->targets);  // masks have no labels
  if (!job.input.empty() || job.learned->labeled || replaces_targets || !has_rows) return;
  const spec::DataSplit& split = spec::split_called(request.loaded.experiment, job.split);
  context.diagnostics.warning(
      split.dataset.position,
      fmt::format(
          "the output has no labels: the labels of dataset.{} do not match the {} of dataset.train",
          job.split, enum_name(job.learned->targets)));
}

/// Plans the output file from the headers, before anything is computed.
study::PredictionPlan plan_for(const PredictFlags& flags, const study::RunRequest& request,
                               const Headers& headers) {
  const data::Facts& predicted = headers.predicted;
  const spec::LearnedTargets learned = targets_of(request, headers.train);
  study::PredictionRequest wanted{flags.out, {}, flags.format, flags.force};
  if (!flags.outputs.empty()) wanted.outputs = trainctl::split(flags.outputs, ',');
  if (learned.targets == spec::Targets::pixels) {
    study::PredictionPlan masks = plan_masks(wanted);
    masks.class_names = study::distinct_names(headers.train.class_names, learned.outputs);
    return masks;
  }
  study::OutputMeaning meaning;  // images are values, whatever the experiment's loss is
  if (request.loaded.experiment.task.type != "gan")
    meaning = study::meaning_of(request.loaded.experiment.loss, learned.targets);
  study::PredictionPlan plan = plan_predictions(wanted, meaning);
  plan.class_names = study::distinct_names(headers.train.class_names, learned.outputs);
  const data::Field& target = predicted.layout[data::roles_of(predicted.layout).target];
  const std::uint64_t target_bytes = learned.labeled ? target.bytes() : 0;
  study::check_room(plan.file,
                    study::known_bytes(plan, predicted.samples, learned.outputs) +
                        study::part_bytes(predicted.samples, learned.outputs, target_bytes));
  return plan;
}

/// Throws the error with which a run ends on this signal.
void throw_on_signal(launch::SignalGuard& guard) {
  const std::vector<int> signals = guard.take();
  if (signals.empty()) return;
  throw Error(signals.front() == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated,
              "stopped by " + launch::signal_name(signals.front()));
}

std::vector<std::string> names_of(const study::PredictionPlan& plan) {
  std::vector<std::string> names;
  for (const study::Output output : plan.outputs) names.emplace_back(enum_name(output));
  return names;
}

void print_summary(const study::PredictionPlan& plan, const study::RunOutcome& outcome,
                   const std::string& input, const Context& context) {
  const std::int64_t rows = outcome.record.evaluated->samples;
  const std::vector<std::string> outputs = names_of(plan);
  if (context.json) {
    Json document = outcome.result;
    if (!input.empty()) document["split"] = nullptr;
    document["input"] = input.empty() ? Json(nullptr) : Json(input);
    document["labels"] = outcome.record.evaluated->labeled && !plan.is_masks();
    document["out"] = plan.file.string();
    document["format"] = enum_name(plan.format);
    document["outputs"] = outputs;
    document["classes"] = plan.class_names;
    document["rows"] = rows;
    print_json(document);
  } else {
    print(
        fmt::format("{}: {} {} with {} for {}", printable(plan.file.string()), with_thousands(rows),
                    plan.is_masks() ? "masks" : "rows", join(outputs, ", "),
                    input.empty() ? "split " + outcome.record.evaluated->split : printable(input)));
  }
}

int predict(const PredictFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  ENSURE(config, !flags.out.empty(),
         "--out is required: a file that ends in .csv, .npy or .jsonl, or a folder for masks");
  study::RunRequest request = job_request(flags.job, spec::JobKind::predict, context);
  const Headers headers = read_headers(request);
  request.job.learned = learned_targets_of(headers, request.job);
  const study::PredictionPlan plan = plan_for(flags, request, headers);
  const bool replaces_targets =
      targets_of(request, headers.train).targets != request.job.learned->targets;
  if (replaces_targets) request.job.learned->labeled = false;
  warn_of_labels(request, replaces_targets, context);
  print_warnings(context);
  launch::SignalGuard guard;  // until the scratch folder is removed
  // The scratch folder is next to the output file, since the files of the ranks take as much space.
  study::ScratchFolder scratch(fs::absolute(plan.file).parent_path());
  study::RunOutcome outcome = run_job(request, scratch.path(), Tables::none, context);
  if (outcome.ending.exit_code != 0) return report_failed_job(outcome, &scratch, context);
  try {
    ENSURE(unexpected, outcome.record.evaluated.has_value(), "no rank reported its predictions");
    const int ranks = static_cast<int>(outcome.record.hellos.size());
    if (plan.is_masks()) {
      move_masks(outcome.folder, plan);
    } else {
      study::write_predictions({outcome.folder, ranks, *outcome.record.evaluated}, plan,
                               [&] { throw_on_signal(guard); });
    }
  } catch (Error& error) {
    if (launch::is_stop_code(error.exit_code())) throw;
    scratch.keep();
    error.add_frame(fmt::format("cannot finish the predictions (the finished part is in {})",
                                scratch.path().string()));
    throw;
  }
  print_summary(plan, outcome, flags.job.input, context);
  return 0;
}

}  // namespace

void add_predict(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"predict", "write a checkpoint's outputs for each sample to a file", kTrainGroup,
                WorkingDirectory::existing},
               predict);
  add_job_arguments(verb, flags.job, context);
  add_options(verb,
              {{"--input", flags.job.input, "PATH",
                "predict images instead of a split: a folder, a list file or one image",
                CLI::Validator(
                    [](const std::string& path) { return path.empty() ? "it is empty" : ""; }, "")},
               {"--out", flags.out, "PATH",
                "required: file to write (.csv, .npy or .jsonl), or new folder for masks"},
               {"--outputs", flags.outputs, "LIST",
                "outputs to write: logits,probabilities,class,prediction (default: depends on the "
                "task, see below)"},
               {"--format", flags.format, "FORMAT",
                "csv, npy or jsonl (default: by the extension of --out), or png for masks"},
               {"--force", flags.force, "replace an existing file"}});
  verb.get_option("--input")->excludes("--split");
  verb.footer(
      "Default of --outputs: class,probabilities for classification, prediction for regression.\n"
      "An NPY file holds only one output (default for classification: probabilities).\n"
      "Examples:\n"
      "  trainctl predict runs/mnist-ffn/latest --checkpoint best --out digits.csv\n"
      "  trainctl predict runs/cats-dogs/latest --checkpoint best --input new/ --out new.csv\n"
      "  trainctl predict runs/streets/latest --checkpoint best --input new/ --out masks");
}

}  // namespace trainctl::app
