#include "study/tune/lr_find.hpp"

#include "base/error.hpp"
#include "cli/verb.hpp"
#include "report/text/run_summary.hpp"

namespace trainctl::app {
namespace {

struct LrFindFlags {
  ConfigArguments config;
  study::LrRange range;
  std::string out = "runs";
};

/// The other learning rates of the unmodified experiment.
struct OtherRates {
  std::optional<study::SecondRate> second;
  std::vector<std::string> held;  // overrides
};

/// Returns nothing if the experiment cannot be read. Errors are reported when the sweep reads it.
OtherRates other_rates_of(const ConfigArguments& config) {
  config::Diagnostics unheard;
  const spec::Loaded loaded = spec::read_experiment(config.file, config.overrides, unheard);
  if (unheard.error_count() > 0) return {};
  return {study::second_rate(loaded.experiment), study::held_groups(loaded.experiment)};
}

study::RunRequest request_for(const LrFindFlags& flags, const OtherRates& others,
                              Context& context) {
  std::vector<std::string> overrides = study::lr_sweep(flags.range, others.second);
  overrides.insert(overrides.end(), others.held.begin(), others.held.end());
  study::RunRequest request =
      study::make_request(invocation_of(flags.config, context), overrides, context.diagnostics);
  request.folder.root = fs::path(flags.out) / "lr-find";
  return request;
}

std::string next_command(const LrFindFlags& flags, const Context& context,
                         const std::vector<std::string>& added) {
  std::vector<std::string> words{context.argv.front(), "run", flags.config.file};
  for (const auto* more : {&flags.config.overrides, &added})
    words.insert(words.end(), more->begin(), more->end());
  return shell_command(std::move(words));
}

Json document(const LrFindFlags& flags, const study::LrFinding& finding) {
  Json json = report::lr_curve_json(finding.curve);
  const std::vector<std::string> found = study::overrides_of(finding);
  json["schema"] = "trainctl.lr_find/2";
  json["config"] = flags.config.file;
  json["exit_code"] = study::exit_code_of(finding);
  json["run_dir"] = finding.run.folder.string();
  json["tried"] = finding.tried;
  json["stopped_early"] = finding.stopped_early;
  json["csv"] = (finding.run.folder / "lr_find.csv").string();
  json["override"] = found.empty() ? Json(nullptr) : Json(found.front());
  json["overrides"] = found;
  return json;
}

void print_finding(const LrFindFlags& flags, const study::LrFinding& finding,
                   const Context& context) {
  const std::vector<std::string> found = study::overrides_of(finding);
  if (context.quiet) {
    if (!found.empty()) print(join(found, " "));
    return;
  }
  const report::Style style = style_for(context, stdout);
  std::string text = report::lr_curve_text(finding.curve, style);
  const auto fact = [&](const char* label, const std::string& value) {
    text += report::fact_line(label, printable(value), style);
  };
  if (finding.stopped_early)
    fact("stopped", fmt::format("early, after {} of {} rates, because the loss diverged",
                                finding.tried, flags.range.steps));
  if (finding.second)
    fact("also raised", fmt::format("{}, always {:.3g} times optimizer.lr", finding.second->key,
                                    finding.second->ratio));
  fact("losses", (finding.run.folder / "lr_find.csv").string());
  if (!found.empty()) fact("next", next_command(flags, context, found));
  writer_for(stdout)(text);
}

/// Returns whether the sweep failed. One that ends with a non-finite loss may have succeeded.
bool failed(const study::LrFinding& finding) {
  return study::exit_code_of(finding) == finding.run.ending.exit_code &&
         finding.run.ending.exit_code != 0;
}

int lr_find(const LrFindFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_error);
  const OtherRates others = other_rates_of(flags.config);
  const study::RunRequest request = request_for(flags, others, context);
  ENSURE(config, request.loaded.experiment.task.type != "gan",
         "lr-find compares losses, but that of the task 'gan' also depends on its discriminator\n"
         "hint: try learning rates from 0.0001 to 0.001, and look at the samples in report.html");
  print_warnings(context);
  if (progress_for(context) != report::ProgressMode::none)
    writer_for(stderr)(fmt::format("trying {} learning rates from {} to {}\n", flags.range.steps,
                                   report::rate_of(flags.range.low),
                                   report::rate_of(flags.range.high)));
  const study::LrFinding finding = study::find_lr(request, others.second, steady_clock());
  if (context.json) {
    print_json(document(flags, finding));
    if (study::exit_code_of(finding) == static_cast<int>(ErrorKind::resource))
      print_error(context, printable_lines(finding.run.ending.message));
  } else if (failed(finding)) {
    writer_for(stderr)(
        report::failure_text(finding.run.record, finding.run.ending, style_for(context, stderr)));
  } else {
    print_finding(flags, finding, context);
  }
  return study::exit_code_of(finding);
}

}  // namespace

void add_lr_find(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(program, context,
                                      {"lr-find", "suggest a learning rate from a short run",
                                       kTrainGroup, WorkingDirectory::existing},
                                      lr_find);
  add_config_arguments(verb, flags.config, context);
  add_options(verb,
              {{"--min", flags.range.low, "LR", "learning rate of the first step (default: 1e-6)"},
               {"--max", flags.range.high, "LR", "learning rate of the last step (default: 10)"},
               {"--steps", flags.range.steps, "N", "number of optimizer steps (default: 200)",
                whole_number(report::kFewestRates, 100'000)},
               {"--out", flags.out, "DIR", "parent folder of the run folders (default: runs)"}});
  verb.footer(
      "As the learning rate rises, the smoothed loss first falls and then rises again. The\n"
      "suggestion is a rate at which it still falls, well below the rate of the lowest loss.\n"
      "Exit codes: 0 a learning rate is suggested; 4 the loss does not clearly fall; 6 the loss\n"
      "diverges from the start.");
}

}  // namespace trainctl::app
