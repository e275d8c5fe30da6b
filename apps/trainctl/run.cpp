#include "study/run.hpp"

#include "base/clock.hpp"
#include "base/strings.hpp"
#include "build_info.hpp"
#include "config_arguments.hpp"
#include "console.hpp"
#include "context.hpp"
#include "engine_library.hpp"
#include "report/summary.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

struct RunFlags {
  ConfigArguments config;
  std::string out = "runs";
  std::string run_dir;
};

study::RunRequest request_for(const RunFlags& flags, Context& context) {
  study::RunRequest request;
  request.loaded = load_checked(flags.config, context);
  request.config_file = flags.config.file;
  request.overrides = flags.config.overrides;
  request.folder.name = request.loaded.experiment.name;
  request.folder.root = flags.out;
  if (!flags.run_dir.empty()) request.folder.fixed = flags.run_dir;
  request.argv = context.argv;
  request.executable = executable_path();
  request.version = version_text();
  request.verbosity = context.verbosity;
  return request;
}

std::vector<std::string> logger_names(const spec::Experiment& experiment) {
  std::vector<std::string> names;
  for (const spec::Logger logger : experiment.loggers) {
    names.emplace_back(enum_names(logger).at(static_cast<std::size_t>(logger)));
  }
  return names;
}

void print_ending(const study::RunOutcome& run, const Context& context) {
  if (context.json) print_json(run.result);
  if (!run.unwritten.empty()) {
    writer_for(stderr)(fmt::format("result.json was not written ({}); it is:\n{}\n",
                                   printable(run.unwritten), to_pretty(run.result)));
  }
  const bool failed = run.ending.exit_code != 0;
  if (failed && !context.json) {
    writer_for(stderr)(report::failure_text(run.record, run.ending, style_for(context, stderr)));
  } else if (!context.json) {
    writer_for(stdout)(
        context.quiet ? run.folder.string() + "\n"
                      : report::summary_text(run.record, run.ending, style_for(context, stdout)));
  }
}

int run(const RunFlags& flags, Context& context) {
  const study::RunRequest request = request_for(flags, context);
  print_warnings(context);
  const std::vector<std::string> columns = study::metric_columns(request.loaded.experiment);
  const auto make_sinks = [&](const fs::path& run_dir) {
    return report::make_sinks(
        {logger_names(request.loaded.experiment), run_dir, console_options(context, columns)});
  };
  const study::RunOutcome outcome = study::run_experiment(request, make_sinks, steady_clock());
  print_ending(outcome, context);
  return outcome.ending.exit_code;
}

}  // namespace

void add_run(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App& verb = add_verb(
      program, context, {"run", "train; writes a run folder, prints the epoch table", kTrainGroup},
      [flags, &context] { return run(*flags, context); });
  add_config_arguments(verb, flags->config);
  verb.add_option("--out", flags->out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--run-dir", flags->run_dir, "write into this folder, which must be empty or new")
      ->type_name("DIR");
}

}  // namespace trainctl::app
