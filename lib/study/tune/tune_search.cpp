#include "study/tune/tune_search.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/run_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace trainctl::study {
namespace {

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

}  // namespace

TuneRequests::TuneRequests(Invocation invocation, config::Diagnostics& diagnostics)
    : invocation_(std::move(invocation)),
      loaded_(make_request(invocation_, {}, diagnostics).loaded) {
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
  config::Diagnostics diagnostics;
  Made made;
  try {
    RunRequest request = make_request(invocation_, added, diagnostics);
    if (folder_) request.folder.root = folder_->path;
    request.folder.name = "runs";
    made = std::move(request);
  } catch (const Error& error) {
    made = first_problem(diagnostics, error);
  }
  return known_.emplace(key, std::move(made)).first->second;
}

TuneRequests::Made TuneRequests::make(const report::TuneChanges& changes, TuneScope scope) {
  Words words = tuning_run(experiment(), length_, scope);
  append(words, pins(changes));
  append(words, overrides_of(changes, "++"));
  Made made = read(words);
  if (std::holds_alternative<RunRequest>(made)) return made;
  Made constant = read(without_schedule(words));
  if (std::holds_alternative<std::string>(constant)) return made;
  has_constant_rate_ = true;
  return constant;
}

TuneResult TuneRequests::run(const report::TuneChanges& changes, TuneScope scope, double most_s) {
  const Made made = make(changes, scope);
  if (const auto* why = std::get_if<std::string>(&made))
    return report::TrialFailure{static_cast<int>(ErrorKind::config), *why};
  return run_tuning(std::get<RunRequest>(made), length_, steady_clock(), most_s);
}

std::variant<spec::Experiment, std::string> TuneRequests::check(
    const report::TuneChanges& changes) {
  const Made whole = read(overrides_of(changes, "++"));
  if (const auto* why = std::get_if<std::string>(&whole)) return *why;
  const Made cut = make(changes, TuneScope::lean);
  if (const auto* why = std::get_if<std::string>(&cut)) return *why;
  return std::get<RunRequest>(whole).loaded.experiment;
}

const fs::path& TuneRequests::make_folder(const fs::path& root) {
  folder_.emplace(make_run_folder({.name = experiment().name, .root = root / "tune"}));
  return folder_->path;
}

report::TuneCommands TuneRequests::commands(const report::TuneReport& report,
                                            const fs::path& patch) const {
  if (report.patch.empty()) return {};
  const std::string& program = invocation_.argv.front();
  Words run{program, "run", invocation_.config_file.string()};
  Words check{program, "bench", invocation_.config_file.string()};
  append(run, invocation_.overrides);
  append(check, invocation_.overrides);
  Words runs = tuning_run(experiment(), length_, scope_of(changes_of(report)));
  append(runs, pins(changes_of(report)));
  append(check, has_constant_rate_ ? without_schedule(runs) : runs);
  for (const report::TunePatchEntry& entry : report.patch) {
    const report::TuneChange& change = entry.change;
    run.push_back(change.key + "=" + change.value);
    if (report.patch.size() == 1)
      append(check, {"--grid", change.key + "=" + change.before + "," + change.value});
  }
  if (report.patch.size() > 1) append(check, {"--against", patch.string()});
  return {command(run), command(check)};
}

namespace {

/// Why the steps of the experiment cannot be recorded as CUDA graphs here; empty: they can.
std::string no_capture(const spec::Experiment& experiment) {
  spec::Experiment asked = experiment;
  asked.trainer.cuda_graphs.value = true;
  const spec::Placement placement = spec::placement_of(asked.trainer, read_machine());
  return spec::capture_obstacle(asked, placement).value_or("");
}

/// Of a signal between two runs; one within a run is the exit code of that.
std::optional<int> stop_code(launch::SignalGuard& guard) {
  for (const int signal : guard.take())
    return static_cast<int>(signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated);
  if (guard.has_heard()) return static_cast<int>(ErrorKind::terminated);
  return std::nullopt;
}

/// Of a search that has not begun.
report::TuneReport unfinished_report(const TuneWish& wish, const report::TrialFailure& why) {
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
std::variant<report::TuneBaseline, report::TrialFailure> find_length(const TuneWish& wish,
                                                                     TuneRequests& requests,
                                                                     const PrintLine& print) {
  const Clock& clock = steady_clock();
  const double ends_at = clock.now() + wish.budget_s;
  print("scouting how long runs have to be");
  const auto result =
      scout(requests.experiment(), epoch_target_s(wish.budget_s), [&](const TuneLength& length) {
        requests.use_length(length);
        TuneResult one = requests.run({}, TuneScope::lean, ends_at - clock.now());
        if (const auto* sample = std::get_if<TuneSample>(&one)) {
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
  const auto& found = std::get<TuneScouted>(result);
  requests.use_length(found.length);
  print(found.length.batches > 0 ? fmt::format("runs of {} epochs of {} batches",
                                               found.length.epochs, found.length.batches)
                                 : fmt::format("runs of {} whole epochs", found.length.epochs));
  report::TuneBaseline baseline;
  baseline.batches = found.length.batches;
  baseline.part = found.length.part;
  baseline.epochs = found.length.epochs;
  baseline.run_s = found.run_s;
  return baseline;
}

}  // namespace

report::TuneReport search_settings(const TuneWish& asked, TuneRequests& requests,
                                   const PrintLine& print) {
  launch::SignalGuard guard;  // what is known is written, whenever a signal comes
  const Clock& clock = steady_clock();
  const double began = clock.now();
  const auto scouted = find_length(asked, requests, print);
  if (const auto* failure = std::get_if<report::TrialFailure>(&scouted))
    return unfinished_report(asked, *failure);
  TuneWish wish = asked;
  wish.spent_s = clock.now() - began;
  const TuneTools tools{.run = [&](const auto& changes, auto scope,
                                   double most_s) { return requests.run(changes, scope, most_s); },
                        .check = [&](const auto& changes) { return requests.check(changes); },
                        .no_capture = no_capture,
                        .stopped = [&] { return stop_code(guard); },
                        .say = print,
                        .clock = clock};
  return tune(wish, std::get<report::TuneBaseline>(scouted), tools);
}

}  // namespace trainctl::study
