#include "study/tune/tune_search.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/run_size.hpp"

#include <fmt/format.h>

#include <csignal>
#include <optional>
#include <variant>

namespace trainctl::study {
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
                                                                     const Say& say) {
  const Clock& clock = steady_clock();
  const double ends_at = clock.now() + wish.budget_s;
  say("scouting how long runs have to be");
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
  say(found.length.batches > 0 ? fmt::format("runs of {} epochs of {} batches", found.length.epochs,
                                             found.length.batches)
                               : fmt::format("runs of {} whole epochs", found.length.epochs));
  report::TuneBaseline baseline;
  baseline.batches = found.length.batches;
  baseline.part = found.length.part;
  baseline.epochs = found.length.epochs;
  baseline.run_s = found.run_s;
  return baseline;
}

}  // namespace

report::TuneReport search_settings(const TuneWish& asked, TuneRequests& requests, const Say& say) {
  launch::SignalGuard guard;  // what is known is written, whenever a signal comes
  const Clock& clock = steady_clock();
  const double began = clock.now();
  const auto scouted = find_length(asked, requests, say);
  if (const auto* failure = std::get_if<report::TrialFailure>(&scouted))
    return unfinished_report(asked, *failure);
  TuneWish wish = asked;
  wish.spent_s = clock.now() - began;
  const TuneTools tools{.run = [&](const auto& changes, auto scope,
                                   double most_s) { return requests.run(changes, scope, most_s); },
                        .check = [&](const auto& changes) { return requests.check(changes); },
                        .no_capture = no_capture,
                        .stopped = [&] { return stop_code(guard); },
                        .say = say,
                        .clock = clock};
  return tune(wish, std::get<report::TuneBaseline>(scouted), tools);
}

}  // namespace trainctl::study
