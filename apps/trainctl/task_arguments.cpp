#include "task_arguments.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"
#include "checkpoint/folders.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint_paths.hpp"
#include "console.hpp"
#include "context.hpp"
#include "launch/verdict.hpp"
#include "report/summary.hpp"
#include "run_request.hpp"
#include "split_argument.hpp"
#include "terminal.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <system_error>
#include <vector>

namespace trainctl::app {
namespace {

constexpr const char* kResolved = "config.resolved.yaml";

/// `latest` may come to name another run while this one is read. As it was where there is none.
std::string resolved(const std::string& folder) {
  std::error_code failure;
  const fs::path found = fs::canonical(folder, failure);
  return failure ? folder : found.string();
}

/// A run folder stands for its experiment and its checkpoints.
void take_run_folder(TaskArguments& arguments) {
  std::error_code ignored;
  if (!arguments.run_dir.empty()) arguments.run_dir = resolved(arguments.run_dir);
  const fs::path folder = resolved(arguments.config.file);
  if (arguments.config.file.empty() || !fs::is_directory(folder, ignored)) return;
  const std::string shown = printable(folder.string());
  ENSURE(config, fs::is_regular_file(folder / kResolved, ignored),
         "the folder {} has no {}: it is no run folder; name one, or an experiment file", shown,
         kResolved);
  ENSURE(config, arguments.run_dir.empty(),
         "{} is a run folder already: leave --run-dir out, or name an experiment file before it",
         shown);
  arguments.run_dir = folder.string();
  arguments.config.file = (folder / kResolved).string();
}

/// "best, last": what the folder has.
std::string checkpoints_in(const fs::path& folder) {
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const fs::path& path = at->path();
    if (path.extension() == ".safetensors") names.push_back(path.stem().string());
    const std::string name = path.filename().string();
    if (checkpoint::parse_folder_name(name) && checkpoint::is_committed(path))
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names.empty() ? "none" : shortened(names);
}

fs::path of_run(const TaskArguments& arguments) {
  ENSURE(config, !arguments.run_dir.empty(),
         "--checkpoint {0} is one of a run: name the run's folder in the place of the experiment "
         "file (runs/NAME/latest --checkpoint {0}), or beside it with --run-dir",
         arguments.checkpoint);
  const fs::path folder = fs::path(arguments.run_dir) / "checkpoints";
  const fs::path file = folder / (arguments.checkpoint + ".safetensors");
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return file;
  const auto linked = linked_checkpoint(arguments.run_dir, arguments.checkpoint);
  ENSURE(config, linked.has_value(), "{} does not exist; the run's checkpoints: {}",
         printable(file.string()), checkpoints_in(folder));
  return *linked;
}

fs::path of_folder(const std::string& wish) {
  try {
    return one_checkpoint(wish);
  } catch (const Error& error) {
    throw Error(ErrorKind::config, std::string("--checkpoint: ") + error.what());
  }
}

fs::path checkpoint_file(const TaskArguments& arguments) {
  const std::string& wish = arguments.checkpoint;
  ENSURE(config, !wish.empty(),
         "--checkpoint is missing: write best or last, of a run folder, or the path of a "
         "checkpoint's folder, or of a safetensors or .pth file");
  if (wish == "best" || wish == "last") return fs::absolute(of_run(arguments));
  std::error_code ignored;
  if (fs::is_directory(wish, ignored)) return of_folder(wish);
  ENSURE(config, fs::is_regular_file(wish, ignored),
         "--checkpoint: there is no file {}; write its path, or best or last of a run folder",
         printable(wish));
  return fs::absolute(wish);
}

/// As the paths of data sets are; empty where there is none.
fs::path input_of(const TaskArguments& arguments) {
  if (arguments.input.empty()) return {};
  return fs::absolute(arguments.input).lexically_normal();
}

}  // namespace

void add_task_arguments(CLI::App& verb, TaskArguments& arguments) {
  add_config_arguments(verb, arguments.config);
  verb.add_option("--checkpoint", arguments.checkpoint,
                  "best or last of the run, a checkpoint's folder, or a safetensors or .pth file")
      ->type_name("WHICH");
  verb.add_option("--run-dir", arguments.run_dir,
                  "the run whose best or last is meant; CONFIG may be that folder itself")
      ->type_name("DIR");
  add_split_argument(verb, arguments.split);
}

study::RunRequest task_request(TaskArguments arguments, spec::TaskKind kind, Context& context) {
  take_run_folder(arguments);
  const spec::Task task{kind, arguments.split, checkpoint_file(arguments), input_of(arguments)};
  const auto purpose = kind == spec::TaskKind::predict ? Purpose::predicting : Purpose::evaluating;
  study::RunRequest request =
      request_of(load_checked(arguments.config, context, purpose), arguments.config, context);
  request.task = task;
  if (task.input.empty()) spec::split_called(request.loaded.experiment, task.split);  // there is
  return request;
}

study::RunOutcome run_task(study::RunRequest request, const fs::path& folder, Tables tables,
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

int report_failed_task(study::RunOutcome& outcome, study::ScratchFolder* scratch,
                       const Context& context) {
  if (scratch != nullptr && launch::is_stop_code(outcome.ending.exit_code)) {
    outcome.ending.run_dir.clear();
  } else if (scratch != nullptr) {
    scratch->keep();
  }
  if (context.json) {
    print_json(outcome.result);
  } else {
    writer_for(stderr)(
        report::failure_text(outcome.record, outcome.ending, style_for(context, stderr)));
  }
  return outcome.ending.exit_code;
}

}  // namespace trainctl::app
