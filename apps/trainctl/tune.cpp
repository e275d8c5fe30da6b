#include "report/search/tune.hpp"

#include "cli/verb.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/tune/tune.hpp"
#include "study/tune/tune_search.hpp"

namespace trainctl::app {
namespace {

struct TuneFlags {
  ConfigArguments config;
  std::string budget = "5m";
  int repeats = 5;
  std::string allow;
  double tolerance = 1e-3;
  std::string out = "runs";
  std::string patch;  // empty: a file in the folder of the search
};

study::TuneOptions options_of(const TuneFlags& flags) {
  const std::optional<double> budget = spec::parse_duration(flags.budget);
  ENSURE(config, budget.has_value(),
         "--budget must be a time such as 90s, 5m, 1h30m or \"HH:MM:SS\", got '{}'",
         printable(flags.budget));
  ENSURE(config, flags.tolerance >= 0 && flags.tolerance < 1,
         "--tolerance must be at least 0 and below 1, got {:g}", flags.tolerance);
  return {.budget_s = *budget,
          .spent_s = 0,
          .repeats = flags.repeats,
          .tolerance = flags.tolerance,
          .allowed = study::allowed_keys(flags.allow)};
}

/// An incomplete search without a result is no reason to remove an older patch.
bool keeps_patch(const fs::path& patch, const report::TuneReport& report) {
  return report.exit_code != 0 && report.patch.empty() && path_exists(patch);
}

void write_files(const fs::path& patch, const report::TuneReport& report,
                 const report::TuneCommands& commands, bool keeps) {
  if (!keeps) write_atomically(patch, report::patch_text(report, commands));
  write_atomically(patch.parent_path() / "tune.json",
                   to_pretty(report::tune_document(report, commands)) + "\n");
}

void print_report(const report::TuneReport& report, const report::TuneCommands& commands,
                  const Context& context) {
  if (context.json) {
    print_json(report::tune_document(report, commands));
    return;
  }
  if (context.quiet) {
    for (const report::TunePatchEntry& entry : report.patch)
      print(printable(entry.change.key + "=" + entry.change.value));
    return;
  }
  writer_for(stdout)(report::tune_text(report, commands, style_for(context, stdout)));
}

int tune(const TuneFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  const study::TuneOptions options = options_of(flags);
  study::TuneRequests requests(invocation_of(flags.config, context), context.diagnostics);
  print_warnings(context);
  context.diagnostics = {};
  const fs::path folder = requests.make_folder(flags.out);
  const fs::path patch = flags.patch.empty() ? folder / "tuned.patch.yaml" : fs::path(flags.patch);
  if (!patch.parent_path().empty())
    make_folder(patch.parent_path());  // fails before minutes of runs rather than after them
  const study::PrintLine print_line = [print = progress_printer(context)](const std::string& line) {
    print(printable(line));
  };
  report::TuneReport report = study::search_settings(options, requests, print_line);
  report.config = flags.config.file;
  report.overrides = flags.config.overrides;
  const report::TuneCommands commands = requests.commands(report, patch);
  const bool keeps = keeps_patch(patch, report);
  write_files(patch, report, commands, keeps);
  print_report(report, commands, context);
  if (!context.json && !context.quiet)
    print_line(keeps ? "kept     " + patch.string() +
                           " unchanged, since nothing was decided; tune.json is written next to it"
                     : "written  " + patch.string() + " and tune.json next to it");
  return report.exit_code;
}

}  // namespace

void add_tune(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"tune", "find settings that make training faster, and verify the gain", kTrainGroup,
                WorkingDirectory::existing},
               tune);
  add_config_arguments(verb, flags.config, context, Builtin::photographs);
  add_options(verb,
              {{"--budget", flags.budget, "TIME",
                "time limit for all runs together, for example 90s or 1h (default: 5m)"},
               {"--repeats", flags.repeats, "N", "pairs of runs for each change (default: 5)",
                whole_number(3, 100)},
               {"--allow", flags.allow, "LIST",
                "also try keys that change the training, for example batch_size,precision"},
               {"--tolerance", flags.tolerance, "SHARE",
                "largest relative difference of losses due to rounding (default: 0.001)"},
               {"--out", flags.out, "DIR", "parent folder of the run folders (default: runs)"},
               {"--patch", flags.patch, "FILE",
                "file for the accepted changes (default: OUT/tune/NAME/TIME/tuned.patch.yaml)"}});
  verb.footer(
      "The first of these rules that applies decides about a change: 1. rejected if the losses\n"
      "differ (--tolerance allows a difference for a change that affects only rounding);\n"
      "2. accepted if the whole 95 % confidence interval of its speed-up is above 1.01;\n"
      "3. rejected if the whole interval is below 1.03; 4. otherwise undecided. With a new batch\n"
      "size, losses are not compared.\n"
      "Apply the patch with 'extends: [CONFIG, tuned.patch.yaml]' in an experiment file.\n"
      "Exit codes: 0 a change was accepted, or no change helps; 4 no change was accepted, and\n"
      "noise or the time limit left some changes undecided.");
}

}  // namespace trainctl::app
