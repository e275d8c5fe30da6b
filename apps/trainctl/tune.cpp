#include "study/tune/tune.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "cli/standard_streams.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "spec/experiment/duration.hpp"
#include "study/tune/tuning_run.hpp"
#include "tune_requests.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::app {
namespace {

void say(const Context& context, const std::string& line) {
  if (progress_for(context) != report::ProgressMode::none)
    writer_for(stderr)(printable(line) + "\n");
}

study::TuneWish wish_of(const TuneFlags& flags) {
  const std::optional<double> budget = spec::parse_duration(flags.budget);
  ENSURE(config, budget.has_value(),
         "--budget: '{}' is no span of time; write 90s, 5m, 1h30m or \"HH:MM:SS\"",
         printable(flags.budget));
  ENSURE(config, flags.tolerance >= 0 && flags.tolerance < 1,
         "--tolerance is {:g}: it is a share of the loss, from 0 to below 1", flags.tolerance);
  return {.budget_s = *budget,
          .spent_s = 0,
          .repeats = flags.repeats,
          .tolerance = flags.tolerance,
          .allowed = study::allowed_keys(flags.allow)};
}

/// Of a signal between two runs; one within a run is the exit code of that.
std::optional<int> stop_code(launch::SignalGuard& guard) {
  for (const int signal : guard.take())
    return static_cast<int>(signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated);
  if (guard.has_heard()) return static_cast<int>(ErrorKind::terminated);
  return std::nullopt;
}

/// Of a search that has not begun.
report::TuneReport unfinished_report(const study::TuneWish& wish, const report::TrialFailure& why) {
  report::TuneReport report;
  report.budget_s = wish.budget_s;
  report.repeats = wish.repeats;
  report.tolerance = wish.tolerance;
  report.end = why.overdue ? report::TuneEnd::budget : report::TuneEnd::stopped;
  report.ended = why.overdue ? "the budget was over before the first verdict"
                             : "stopped by a signal before the first verdict";
  report.exit_code = why.overdue ? static_cast<int>(ErrorKind::inconclusive) : why.exit_code;
  return report;
}

/// The length of the runs, which `requests` takes over.
std::variant<report::TuneBaseline, report::TrialFailure> find_length(const study::TuneWish& wish,
                                                                     TuneRequests& requests,
                                                                     const Context& context) {
  const Clock& clock = steady_clock();
  const double ends_at = clock.now() + wish.budget_s;
  say(context, "scouting how long runs have to be");
  const auto result = study::scout(
      requests.experiment(), study::epoch_target_s(wish.budget_s),
      [&](const study::TuneLength& length) {
        requests.use_length(length);
        study::TuneResult one = requests.run({}, study::TuneScope::lean, ends_at - clock.now());
        if (const auto* sample = std::get_if<study::TuneSample>(&one)) {
          requests.pin_threads(sample->facts.num_threads);
          requests.pin_layout(sample->facts.channels_last);
        }
        return one;
      });
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    if (failure->overdue || launch::is_stop_code(failure->exit_code)) return *failure;
    throw Error(static_cast<ErrorKind>(failure->exit_code),
                "the experiment as it is does not run: " + failure->message);
  }
  const auto& found = std::get<study::TuneScouted>(result);
  requests.use_length(found.length);
  say(context, found.length.batches > 0
                   ? fmt::format("runs of {} epochs of {} batches", found.length.epochs,
                                 found.length.batches)
                   : fmt::format("runs of {} whole epochs", found.length.epochs));
  report::TuneBaseline baseline;
  baseline.batches = found.length.batches;
  baseline.part = found.length.part;
  baseline.epochs = found.length.epochs;
  baseline.run_s = found.run_s;
  return baseline;
}

report::TuneReport search(const study::TuneWish& asked, TuneRequests& requests,
                          const Context& context) {
  launch::SignalGuard guard;  // what is known is written, whenever a signal comes
  const Clock& clock = steady_clock();
  const double began = clock.now();
  const auto scouted = find_length(asked, requests, context);
  if (const auto* failure = std::get_if<report::TrialFailure>(&scouted))
    return unfinished_report(asked, *failure);
  study::TuneWish wish = asked;
  wish.spent_s = clock.now() - began;
  const study::TuneTools tools{
      .run = [&](const auto& changes, auto scope,
                 double most_s) { return requests.run(changes, scope, most_s); },
      .check = [&](const auto& changes) { return requests.check(changes); },
      .no_capture = no_capture,
      .stopped = [&] { return stop_code(guard); },
      .say = [&](const std::string& line) { say(context, line); },
      .clock = clock};
  return study::tune(wish, std::get<report::TuneBaseline>(scouted), tools);
}

/// A search that did not come to its end and found nothing tells nothing against an older patch.
bool keeps_patch(const fs::path& patch, const report::TuneReport& report) {
  std::error_code ignored;
  return report.exit_code != 0 && report.patch.empty() && fs::exists(patch, ignored);
}

void write_files(const fs::path& patch, const report::TuneReport& report,
                 const report::TuneCommands& commands, bool keeps) {
  if (!keeps) write_atomically(patch, report::patch_text(report, commands));
  write_atomically(patch.parent_path() / "tune.json",
                   to_pretty(report::tune_document(report, commands)) + "\n");
}

void print_report(const report::TuneReport& report, const report::TuneCommands& commands,
                  const Context& context) {
  if (context.json) return print_json(report::tune_document(report, commands));
  if (context.quiet) {
    for (const report::TunePatchEntry& entry : report.patch)
      print(printable(entry.change.key + "=" + entry.change.value));
    return;
  }
  writer_for(stdout)(report::tune_text(report, commands, style_for(context, stdout)));
}

int tune(const TuneFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  const study::TuneWish wish = wish_of(flags);
  TuneRequests requests(flags, context);
  const fs::path folder = requests.make_folder();
  const fs::path patch = flags.patch.empty() ? folder / "tuned.patch.yaml" : fs::path(flags.patch);
  if (!patch.parent_path().empty())
    make_folder(patch.parent_path());  // known before minutes of runs rather than after them
  report::TuneReport report = search(wish, requests, context);
  report.config = flags.config.file;
  report.overrides = flags.config.overrides;
  const report::TuneCommands commands = requests.commands(report, patch);
  const bool keeps = keeps_patch(patch, report);
  write_files(patch, report, commands, keeps);
  print_report(report, commands, context);
  if (!context.json && !context.quiet)
    say(context, keeps ? "kept     " + patch.string() +
                             " as it was, since nothing was decided; "
                             "tune.json is written next to it"
                       : "written  " + patch.string() + " and tune.json next to it");
  return report.exit_code;
}

}  // namespace

void add_tune(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<TuneFlags>();
  CLI::App& verb =
      add_verb(program, context,
               {"tune", "find out what makes a run slow, try keys, prove and write what helps",
                kTrainGroup, WorkingDirectory::existing},
               [flags, &context] { return tune(*flags, context); });
  add_config_arguments(verb, flags->config, context, Builtin::photographs);
  verb.add_option("--budget", flags->budget, "longest time for all runs together: 90s, 5m, 1h")
      ->type_name("TIME")
      ->capture_default_str();
  verb.add_option("--repeats", flags->repeats, "pairs of runs that decide about a change")
      ->check(whole_number(3, 100))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--allow", flags->allow,
                  "keys to try although they change the training or what is kept of it: "
                  "batch_size,precision,check_val_every_n_epoch,checkpoint.every_n_epochs")
      ->type_name("LIST");
  verb.add_option("--tolerance", flags->tolerance,
                  "how far losses may differ where sums come in another order")
      ->type_name("SHARE")
      ->capture_default_str();
  verb.add_option("--out", flags->out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--patch", flags->patch,
                  "write the changes, as a file to extend, and tune.json next to it "
                  "(default: OUT/tune/NAME/TIME/tuned.patch.yaml)")
      ->type_name("FILE");
  verb.footer(
      "A change is accepted where the 95 % interval of its gain lies above 1.01 and the losses\n"
      "stay the same. Exit codes: 0 it was decided, with a patch or without; 4 noise or the end\n"
      "of the budget left changes open, and there is no patch.");
}

}  // namespace trainctl::app
