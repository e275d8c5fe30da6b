#include "report/search/tune.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/run_size.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/run/run.hpp"
#include "study/tune/tune.hpp"
#include "study/tune/tuning_run.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::app {
namespace {

struct TuneFlags {
  ConfigArguments config;
  std::string budget = "5m";
  int repeats = 5;
  std::string allow;
  double tolerance = 1e-3;
  std::string out = "runs";
  std::string patch;  // empty: in the folder of the search
};

/// The experiment of the command line, cut down to the short runs of tune, with changes laid over
/// it.
class TuneRequests {
 public:
  /// Reads and checks the experiment as it is, and prints its warnings. Throws Error(config).
  TuneRequests(const TuneFlags& flags, Context& context);
  /// Makes OUT/tune/NAME/TIME, in which all runs of the search get their folders.
  const std::filesystem::path& make_folder();

  [[nodiscard]] const spec::Experiment& experiment() const { return loaded_.experiment; }
  void use_length(const study::TuneLength& length) { length_ = length; }
  /// Where the experiment leaves the number to each run, all have this one from now on: else a run
  /// might measure another than that which it is compared with.
  void pin_threads(int threads);
  /// The same for the memory format of images.
  void pin_layout(bool channels_last);

  study::TuneResult run(const report::TuneChanges& changes, study::TuneScope scope, double most_s);
  /// The experiment with these changes, at its full length, or why it does not take them.
  std::variant<spec::Experiment, std::string> check(const report::TuneChanges& changes);

  /// `patch`: the file that the changes are written to.
  [[nodiscard]] report::TuneCommands commands(const report::TuneReport& report,
                                              const std::filesystem::path& patch) const;

 private:
  using Made = std::variant<study::RunRequest, std::string>;  // or why there is none

  /// The overrides that pin the choices of `auto` in a run with these changes.
  [[nodiscard]] std::vector<std::string> pins(const report::TuneChanges& changes) const;
  Made make(const report::TuneChanges& changes, study::TuneScope scope);
  Made read(const std::vector<std::string>& added);

  const TuneFlags& flags_;
  Context& context_;
  spec::Loaded loaded_;
  std::optional<study::RunFolder> folder_;
  study::TuneLength length_;
  std::optional<int> threads_;
  std::optional<bool> channels_last_;
  bool has_constant_rate_ = false;
  std::map<std::string, Made> known_;  // by the overrides
};

/// Why the steps of the experiment cannot be recorded as CUDA graphs here; empty: they can.
std::string no_capture(const spec::Experiment& experiment);

using Words = std::vector<std::string>;

Words overrides_of(const report::TuneChanges& changes, const char* prefix) {
  Words words;
  for (const report::TuneChange& change : changes)
    words.push_back(prefix + change.key + "=" + change.value);
  return words;
}

/// The first error in one line.
std::string first_problem(const config::Diagnostics& diagnostics, const Error& error) {
  for (const config::Diagnostic& problem : diagnostics.sorted()) {
    if (problem.severity == config::Severity::error) return problem.message;
  }
  return error.what();
}

std::string command(Words words) {
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

report::TuneChanges changes_of(const report::TuneReport& report) {
  report::TuneChanges changes;
  for (const report::TunePatchEntry& entry : report.patch) changes.push_back(entry.change);
  return changes;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

TuneRequests::TuneRequests(const TuneFlags& flags, Context& context)
    : flags_(flags), context_(context), loaded_(load_checked(flags.config, context)) {
  print_warnings(context);
  context.diagnostics = {};
  const spec::Experiment& experiment = loaded_.experiment;
  ENSURE(config, !experiment.loader.batch_size.automatic,
         "loader.batch_size is auto, which only 'trainctl run' finds out: add a number, as in "
         "loader.batch_size=64");
  ENSURE(config, experiment.trainer.num_nodes == 1,
         "trainer.num_nodes is {}, and tune starts its runs on this machine alone: add "
         "trainer.num_nodes=1",
         experiment.trainer.num_nodes);
}

void TuneRequests::pin_threads(int threads) {
  if (experiment().trainer.num_threads.is_auto() && threads > 0) threads_ = threads;
}

void TuneRequests::pin_layout(bool channels_last) {
  if (experiment().trainer.channels_last.is_auto()) channels_last_ = channels_last;
}

// In another number format `auto` may choose another layout: the run with the patch will have that.
Words TuneRequests::pins(const report::TuneChanges& changes) const {
  Words words;
  if (threads_) words.push_back(fmt::format("++trainer.num_threads={}", *threads_));
  const bool same_format = std::ranges::none_of(changes, [](const report::TuneChange& change) {
    return change.key == "trainer.precision" || change.key == "trainer.channels_last";
  });
  if (channels_last_ && same_format)
    words.push_back(fmt::format("++trainer.channels_last={}", *channels_last_));
  return words;
}

TuneRequests::Made TuneRequests::read(const Words& added) {
  const std::string key = join(added, "\n");
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  context_.diagnostics = {};
  Made made;
  try {
    study::RunRequest request =
        study::make_request(invocation_of(flags_.config, context_), added, context_.diagnostics);
    if (folder_) request.folder.root = folder_->path;
    request.folder.name = "runs";
    made = std::move(request);
  } catch (const Error& error) {
    made = first_problem(context_.diagnostics, error);
  }
  context_.diagnostics = {};
  return known_.emplace(key, std::move(made)).first->second;
}

TuneRequests::Made TuneRequests::make(const report::TuneChanges& changes, study::TuneScope scope) {
  Words words = study::tuning_run(experiment(), length_, scope);
  append(words, pins(changes));
  append(words, overrides_of(changes, "++"));
  Made made = read(words);
  if (std::holds_alternative<study::RunRequest>(made)) return made;
  Made constant = read(study::without_schedule(words));
  if (std::holds_alternative<std::string>(constant)) return made;
  has_constant_rate_ = true;
  return constant;
}

study::TuneResult TuneRequests::run(const report::TuneChanges& changes, study::TuneScope scope,
                                    double most_s) {
  const Made made = make(changes, scope);
  if (const auto* why = std::get_if<std::string>(&made))
    return report::TrialFailure{static_cast<int>(ErrorKind::config), *why};
  return study::run_tuning(std::get<study::RunRequest>(made), length_, steady_clock(), most_s);
}

std::variant<spec::Experiment, std::string> TuneRequests::check(
    const report::TuneChanges& changes) {
  const Made whole = read(overrides_of(changes, "++"));
  if (const auto* why = std::get_if<std::string>(&whole)) return *why;
  const Made cut = make(changes, study::TuneScope::lean);
  if (const auto* why = std::get_if<std::string>(&cut)) return *why;
  return std::get<study::RunRequest>(whole).loaded.experiment;
}

const fs::path& TuneRequests::make_folder() {
  folder_.emplace(
      study::make_run_folder({.name = experiment().name, .root = fs::path(flags_.out) / "tune"}));
  return folder_->path;
}

report::TuneCommands TuneRequests::commands(const report::TuneReport& report,
                                            const fs::path& patch) const {
  if (report.patch.empty()) return {};
  const std::string& program = context_.argv.front();
  Words run{program, "run", flags_.config.file};
  Words check{program, "bench", flags_.config.file};
  append(run, flags_.config.overrides);
  append(check, flags_.config.overrides);
  Words runs = study::tuning_run(experiment(), length_, study::scope_of(changes_of(report)));
  append(runs, pins(changes_of(report)));
  append(check, has_constant_rate_ ? study::without_schedule(runs) : runs);
  for (const report::TunePatchEntry& entry : report.patch) {
    const report::TuneChange& change = entry.change;
    run.push_back(change.key + "=" + change.value);
    if (report.patch.size() == 1)
      append(check, {"--grid", change.key + "=" + change.before + "," + change.value});
  }
  if (report.patch.size() > 1) append(check, {"--against", patch.string()});
  return {command(run), command(check)};
}

std::string no_capture(const spec::Experiment& experiment) {
  spec::Experiment asked = experiment;
  asked.trainer.cuda_graphs.value = true;
  const spec::Placement placement = spec::placement_of(asked.trainer, read_machine());
  return spec::capture_obstacle(asked, placement).value_or("");
}

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
