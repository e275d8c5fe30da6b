#include "cli/run_arguments.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"
#include "cli/output.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "study/resume/run_history.hpp"

namespace trainctl::app {
namespace {

/// Returns the runs of a sweep folder in order, or else the folder itself.
std::vector<std::string> runs_of_folder(const std::string& folder) {
  std::vector<std::string> runs;
  if (!report::is_run_folder(folder)) {
    for (const fs::path& run : paths_in(fs::path(folder) / "runs")) {
      if (report::is_run_folder(run)) runs.push_back(run.string());
    }
  }
  return runs.empty() ? std::vector<std::string>{folder} : runs;
}

/// Resolves links and "..", so that the last part of the path is the checkpoint's name.
fs::path found_folder(const std::string& path) {
  std::error_code failure;
  const fs::path found =
      fs::canonical(run_word(path, "runs", study::RunNeeds::checkpoint), failure);
  ENSURE(checkpoint, !failure, "cannot find {}: {}", printable(path), failure.message());
  ENSURE(checkpoint, checkpoint::is_folder(found),
         "{} must be a checkpoint folder or a run folder, got a file", printable(path));
  return found;
}

bool is_one(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return checkpoint::is_committed(folder) || checkpoint::parse_folder_name(name) ||
         name.starts_with(checkpoint::kQuarantinePrefix);
}

/// Returns the checkpoint folder of a run folder, or the folder itself.
fs::path store_in(const fs::path& folder) {
  const fs::path below = folder / "checkpoints";
  return checkpoint::is_folder(below) ? below : folder;
}

constexpr const char* kResolved = "config.resolved.yaml";
constexpr const char* kRuns = "runs";  // default folder of `trainctl run`

bool is_link_name(const std::string& checkpoint) {
  return checkpoint == "best" || checkpoint == "last";
}

/// Returns what a run must have for this value of --checkpoint.
study::RunNeeds needs_of(const std::string& checkpoint) {
  if (checkpoint == "best") return study::RunNeeds::best_weights;
  return checkpoint == "last" ? study::RunNeeds::last_weights : study::RunNeeds::weights;
}

/// Returns the run that a word refers to with links resolved, since `latest` may change while the
/// run is read. Returns the word itself if no run has that name.
std::string resolved(const std::string& word, study::RunNeeds needs) {
  std::error_code failure;
  const std::string run = run_word(word, kRuns, needs);
  const fs::path found = fs::canonical(run, failure);
  return failure ? run : found.string();
}

/// Replaces a run folder with its experiment and its checkpoint.
void take_run_folder(JobArguments& arguments) {
  const study::RunNeeds needs = needs_of(arguments.checkpoint);
  if (!arguments.run_dir.empty()) arguments.run_dir = resolved(arguments.run_dir, needs);
  const fs::path folder = resolved(arguments.config.file, needs);
  if (arguments.config.file.empty() || !is_folder(folder)) return;
  const std::string shown = printable(folder.string());
  if (study::is_run_folder(folder)) {
    if (const std::string note = study::restore_resolved_config(folder); !note.empty())
      log::get().warn("{}", note);
  }
  ENSURE(config, is_file(folder / kResolved),
         "the folder {} has no {}, so it is not a run folder\nhint: name a run folder or an "
         "experiment file",
         shown, kResolved);
  ENSURE(
      config, arguments.run_dir.empty(),
      "both {} and --run-dir {} name a run folder\nhint: remove --run-dir, or name an experiment "
      "file instead of the folder",
      shown, printable(arguments.run_dir));
  arguments.run_dir = folder.string();
  arguments.config.file = (folder / kResolved).string();
}

/// Returns the checkpoints in the folder: "best, last".
std::string checkpoints_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : paths_in(folder)) {
    if (path.extension() == ".safetensors") names.push_back(path.stem().string());
    const std::string name = path.filename().string();
    if (checkpoint::parse_folder_name(name) && checkpoint::is_committed(path))
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names.empty() ? "none" : shortened(names);
}

/// Warns about a damaged job file: resuming would write it again, but an evaluation only reads.
void warn_of_damaged_job(const fs::path& run_dir) {
  const std::string damage = study::job_damage(run_dir);
  if (!damage.empty() && study::is_run_folder(run_dir))
    log::get().warn(
        "{}: {} is damaged ({}); the run has checkpoints, so it is treated as a training run",
        printable(run_dir.string()), spec::kJobFile, one_line(damage));
}

/// Returns the checkpoint of the newest run of the experiment that has it.
fs::path of_newest_run(const JobArguments& arguments, const std::string& experiment,
                       const Context& context) {
  const std::string& name = arguments.checkpoint;
  const study::RunNeeds needs = needs_of(name);
  if (const study::RunSearch search = study::newest_run(kRuns, experiment, needs); search.run) {
    const std::string skipped =
        search.skipped.empty() ? "" : "; " + skipped_text(search.skipped, needs);
    if (!context.quiet)
      put(stderr, fmt::format("--checkpoint {}: using the run {}{}\n", name,
                              printable(search.run->string()), skipped));
    return *study::weights_named(*search.run, name);
  }
  THROW(config,
        "--checkpoint {0}: no run of '{1}' in {2} has a checkpoint '{0}'\nhint: train "
        "the experiment with 'trainctl run', or name a run folder with --run-dir",
        name, printable(experiment), printable((fs::absolute(kRuns)).string()));
}

fs::path of_run(const JobArguments& arguments) {
  const auto found = study::weights_named(arguments.run_dir, arguments.checkpoint);
  const fs::path folder = fs::path(arguments.run_dir) / "checkpoints";
  ENSURE(config, found.has_value(), "{} does not exist; the run's checkpoints: {}",
         printable((folder / (arguments.checkpoint + ".safetensors")).string()),
         checkpoints_in(folder));
  return *found;
}

fs::path of_folder(const std::string& requested) {
  try {
    return one_checkpoint(requested);
  } catch (const Error& error) {
    throw Error(ErrorKind::config, with_prefix("--checkpoint", error.what()));
  }
}

fs::path checkpoint_file(const JobArguments& arguments, const std::string& experiment,
                         const Context& context) {
  const std::string& requested = arguments.checkpoint;
  ENSURE(
      config, !requested.empty(),
      "--checkpoint is required: best, last, a checkpoint folder, or a .safetensors or .pth file");
  if (is_link_name(requested)) {
    return fs::absolute(arguments.run_dir.empty() ? of_newest_run(arguments, experiment, context)
                                                  : of_run(arguments));
  }
  if (is_folder(requested)) return of_folder(requested);
  ENSURE(config, is_file(requested),
         "--checkpoint: {} does not exist\nhint: use a path, or 'best' or 'last' of a run folder",
         printable(requested));
  return fs::absolute(requested);
}

/// Returns whether the checkpoint can be found without the name of the experiment.
bool needs_no_experiment(const JobArguments& arguments) {
  return !is_link_name(arguments.checkpoint) || !arguments.run_dir.empty();
}

void expect_selectable(const fs::path& checkpoint, const weights::Selection& selection) {
  const bool is_plain = selection.section.empty() && selection.renaming.is_empty();
  ENSURE(config, is_plain || !is_folder(checkpoint),
         "--section, --prefix and --key-map require a file of weights, but {} is a checkpoint of "
         "trainctl\nhint: remove these options",
         printable(checkpoint.string()));
}

/// Records in the job which data the weights were trained on, from the manifest of the checkpoint
/// or of its run folder. A weights file outside a run folder has neither.
void record_training_data(spec::Job& job) {
  std::map<std::string, std::string> recorded;
  if (is_folder(job.weights))
    recorded = study::recorded_fingerprints(checkpoint::read_manifest(job.weights));
  if (recorded.empty())
    recorded = study::recorded_fingerprints(job.weights.parent_path().parent_path());
  job.trained_on = recorded["train"];
  job.division = recorded["split"];
}

/// Returns the path in the form of data set paths; empty without --input.
fs::path input_of(const JobArguments& arguments) {
  if (arguments.input.empty()) return {};
  return fs::absolute(arguments.input).lexically_normal();
}

}  // namespace

std::string skipped_text(const std::vector<fs::path>& skipped, study::RunNeeds needs) {
  std::vector<std::string> names;
  for (const fs::path& folder : skipped) names.push_back(folder.string());
  return fmt::format("skipped {} newer {} {}: {}", names.size(), names.size() == 1 ? "run" : "runs",
                     study::unmet_text(needs), shortened(names));
}

std::string run_word(const std::string& word, const fs::path& root, study::RunNeeds needs) {
  if (is_file(word) || report::is_run_folder(word)) return word;
  const auto run = study::lookup_run(word, root, needs);
  if (!run) return word;
  if (!run->skipped.empty())
    put(stderr, fmt::format("'{}' is the run {}; {}\n", printable(word),
                            printable(run->folder.string()), skipped_text(run->skipped, needs)));
  return run->folder.string();
}

std::vector<std::string> runs_of_word(const std::string& word) {
  if (path_exists(word)) return runs_of_folder(run_word(word));
  std::vector<std::string> folders;
  for (const std::string& name : split(word, ',')) {
    if (name.empty()) continue;
    const std::string one = run_word(name);
    ENSURE(config, path_exists(one),
           "cannot find the run '{}': it is neither a folder nor an experiment with runs in runs/",
           printable(one));
    for (std::string& folder : runs_of_folder(one)) folders.push_back(std::move(folder));
  }
  ENSURE(config, !folders.empty(), "'{}' is not a run", printable(word));
  return folders;
}

void print_notes(const report::RunFiles& run, const Context& context) {
  for (const std::string& note : run.notes) {
    const bool is_damage =
        note.find("damaged") != std::string::npos || note.find(": line ") != std::string::npos;
    if (is_damage || !(context.quiet || context.json))
      put(stderr,
          fmt::format("warning: {}: {}\n", printable(run.folder.string()), printable(note)));
  }
}

fs::path checkpoints_folder(const std::string& path) {
  const fs::path folder = found_folder(path);
  ENSURE(checkpoint, !is_one(folder),
         "{} is a checkpoint, not a run\nhint: name its run, or use 'checkpoint inspect'",
         printable(path));
  return store_in(folder);
}

fs::path one_checkpoint(const std::string& path) {
  const fs::path folder = found_folder(path);
  if (is_one(folder)) return folder;
  const std::vector<checkpoint::StoredCheckpoint> all = checkpoint::Store(store_in(folder)).list();
  const auto newest = std::ranges::find_if(all, &checkpoint::StoredCheckpoint::committed);
  ENSURE(checkpoint, newest != all.end(), "there is no checkpoint in {}", printable(path));
  return newest->path;
}

void add_job_arguments(CLI::App& verb, JobArguments& arguments, Context& context) {
  add_config_arguments(verb, arguments.config, context);
  CLI::Option* const words = verb.get_option("words");
  words->type_name("[CONFIG|RUN] [key=value ...]");
  words->description("run folder, or " + words->get_description());
  context.complete_arguments[&verb] = [&arguments, &context] {
    if (!arguments.config.file.empty()) return;
    const bool of_run = !arguments.run_dir.empty();
    arguments.config.file = of_run ? std::exchange(arguments.run_dir, {})
                                   : default_config(context, Builtin::quickstart);
  };
  add_options(verb,
              {{"--checkpoint", arguments.checkpoint, "WHICH",
                "required: best, last, a checkpoint folder, .safetensors or .pth file"},
               {"--run-dir", arguments.run_dir, "DIR",
                "run folder for --checkpoint best or last (default: newest run of the experiment)"},
               {"--accept-data-change", arguments.accept_data_change,
                "continue even if dataset.split divides the data differently than in training"}});
  add_selection_flags(verb, arguments.selection);
  add_split_argument(verb, arguments.split);
}

study::RunRequest job_request(JobArguments arguments, spec::JobKind kind, Context& context) {
  take_run_folder(arguments);
  const weights::Selection selection = selection_of(arguments.selection);
  if (needs_no_experiment(arguments)) checkpoint_file(arguments, "", context);  // to fail early
  const auto purpose =
      kind == spec::JobKind::predict ? study::Purpose::predicting : study::Purpose::evaluating;
  study::RunRequest request = study::make_request(invocation_of(arguments.config, context), {},
                                                  context.diagnostics, purpose);
  spec::Job job{kind, arguments.split,
                checkpoint_file(arguments, request.loaded.experiment.name, context),
                input_of(arguments)};
  warn_of_damaged_job(job.weights.parent_path().parent_path());
  record_training_data(job);
  if (arguments.accept_data_change) job.division.clear();
  request.job = job;
  request.weights = selection;
  expect_selectable(job.weights, selection);
  if (job.input.empty()) spec::split_called(request.loaded.experiment, job.split);  // may throw
  return request;
}

study::RunOutcome run_job(study::RunRequest request, const fs::path& folder, Tables tables,
                          const Context& context) {
  request.folder.fixed = folder;
  const auto make_sinks = [&](const fs::path& run_dir) {
    report::ConsoleOptions console = console_options(context, {});
    study::Sinks sinks;
    sinks.push_back(report::make_console_sink(std::move(console)));
    if (tables == Tables::files) sinks.push_back(report::make_csv_sink(run_dir, {}));
    return sinks;
  };
  return study::run_experiment(request, make_sinks, steady_clock());
}

int report_failed_job(study::RunOutcome& outcome, study::ScratchFolder* scratch,
                      const Context& context) {
  // Ranks that failed have written logs.
  const bool is_useful = scratch != nullptr && !launch::is_stop_code(outcome.ending.exit_code) &&
                         !paths_in(scratch->path() / "logs").empty();
  if (is_useful) {
    scratch->keep();
  } else if (scratch != nullptr) {
    outcome.ending.run_dir.clear();
  }
  if (context.json) print_json(outcome.result);
  print_failure(context, outcome.record, outcome.ending);
  return outcome.ending.exit_code;
}

}  // namespace trainctl::app
