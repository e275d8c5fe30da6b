#include "study/tune.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/verdict.hpp"
#include "study/tune_fights.hpp"
#include "study/tune_proposal.hpp"
#include "study/tune_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::study {
namespace {

using report::Ruling;
using report::TuneChange;
using report::TuneChanges;
using report::TuneEnd;

/// With the change in them, in the place of an earlier one of the same key.
TuneChanges with(TuneChanges changes, const TuneChange& change) {
  const auto same = std::ranges::find(changes, change.key, &TuneChange::key);
  if (same == changes.end()) {
    changes.push_back(change);
  } else {
    same->value = change.value;
  }
  return changes;
}

LossRule loosest(const TuneChanges& changes) {
  LossRule rule = LossRule::same;
  for (const TuneChange& change : changes) rule = std::max(rule, loss_rule_of(change.key));
  return rule;
}

class Search {
 public:
  Search(const TuneWish& wish, const report::TuneBaseline& baseline, const TuneTools& tools)
      : wish_(wish), tools_(tools), fights_(wish, tools), record_(wish, baseline) {}

  report::TuneReport run() {
    diagnose();
    while (!record_.is_over() && step()) {
    }
    if (!stop_code_) prove();
    return record_.finished(fights_.used_s(), stop_code_);
  }

 private:
  void diagnose();
  bool step();
  void try_one(const TuneCandidate& candidate);
  void accept(const TuneCandidate& candidate, const DuelRuns& runs);
  void prove();
  bool holds();
  void drop_weakest(const std::string& why);

  [[nodiscard]] TuneSituation situation() const;
  std::optional<TuneCandidate> next(const TuneCandidates& found);
  DuelRuling fight(const Duel& duel, DuelRuns& runs, int more);
  void check_failure(const DuelRuns& runs);
  void end_by_signal(int code);
  void end_out_of_time(const std::string& what);
  bool heard_signal();

  const TuneWish& wish_;
  const TuneTools& tools_;
  TuneFights fights_;
  TuneRecord record_;
  TuneFacts facts_;
  std::set<std::string> seen_;    // "key=value"
  std::optional<int> stop_code_;  // set: no further run, not even of the proof
};

void Search::diagnose() {
  if (heard_signal()) return;
  const TuneResult result = tools_.run({}, TuneScope::whole, fights_.left_s());
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    if (failure->overdue) return end_out_of_time("the first verdict");
    if (launch::is_stop_code(failure->exit_code)) return end_by_signal(failure->exit_code);
    throw Error(static_cast<ErrorKind>(failure->exit_code),
                "the experiment as it is does not run: " + failure->message);
  }
  const auto& sample = std::get<TuneSample>(result);
  facts_ = sample.facts;
  record_.start(sample);
  fights_.start(record_.report().baseline.run_s);
  tools_.say(fmt::format("verdict  {}: {:.0f} % of the time, at most {:.2f}x to be won",
                         sample.verdict.name, 100 * sample.verdict.share, sample.verdict.headroom));
}

TuneSituation Search::situation() const {
  const auto checked = tools_.check(fights_.base());
  if (const auto* why = std::get_if<std::string>(&checked)) throw Error(ErrorKind::config, *why);
  TuneSituation now{.experiment = std::get<spec::Experiment>(checked),
                    .verdict = record_.report().after,
                    .facts = facts_,
                    .no_capture = {},
                    .whole_epochs = record_.report().baseline.part >= 1,
                    .allowed = wish_.allowed};
  now.no_capture = tools_.no_capture(now.experiment);
  return now;
}

/// False: the search is over.
bool Search::step() {
  if (heard_signal()) return false;
  const TuneSituation now = situation();
  TuneCandidates found = tune_candidates(now);
  if (auto first = proposed(now, found)) found.tries.insert(found.tries.begin(), *first);
  record_.note(found);
  const std::optional<TuneCandidate> candidate = next(found);
  if (!candidate) {
    record_.end_for_want_of_candidates();
    return false;
  }
  if (!fights_.has_time_for(1)) {
    record_.end(
        TuneEnd::budget,
        fmt::format("the budget does not leave the time for {}: a comparison takes about {}, and "
                    "so does the proof behind it",
                    setting_of(candidate->change), human_duration(fights_.comparison_s())));
    return false;
  }
  try_one(*candidate);
  return true;
}

/// The first that was not seen yet and that the experiment takes.
std::optional<TuneCandidate> Search::next(const TuneCandidates& found) {
  for (const TuneCandidate& candidate : found.tries) {
    if (seen_.contains(setting_of(candidate.change))) continue;
    const auto checked = tools_.check(with(fights_.base(), candidate.change));
    const auto* why = std::get_if<std::string>(&checked);
    if (why == nullptr) return candidate;
    seen_.insert(setting_of(candidate.change));
    record_.leave_out({candidate.change.key, candidate.change.value, *why});
  }
  return std::nullopt;
}

DuelRuling Search::fight(const Duel& duel, DuelRuns& runs, int more) {
  const DuelRuling ruling = fights_.fight(duel, runs, more);
  check_failure(runs);
  return ruling;
}

void Search::check_failure(const DuelRuns& runs) {
  if (fights_.is_late()) end_out_of_time("the last comparison");
  if (!runs.failed) return;
  if (launch::is_stop_code(runs.failed->exit_code)) return end_by_signal(runs.failed->exit_code);
  if (!runs.base_failed) return;
  stop_code_ = runs.failed->exit_code;
  record_.end(TuneEnd::failed,
              "a run that others are compared with failed: " + runs.failed->message);
}

void Search::try_one(const TuneCandidate& candidate) {
  seen_.insert(setting_of(candidate.change));
  tools_.say(fmt::format("trying   {} (was {}): {}", setting_of(candidate.change),
                         candidate.change.before, candidate.reason));
  const TuneChanges other = with(fights_.base(), candidate.change);
  const Duel duel{fights_.base(), other, scope_of(other), candidate.rule, wish_.tolerance};
  DuelRuns runs;
  const DuelRuling ruling = fight(duel, runs, 1);
  if (stop_code_) return;
  record_.note_try(candidate, runs, ruling);
  const bool accepted = ruling.ruling == Ruling::accepted;
  tools_.say(fmt::format("{} {}  {}: {}", accepted ? "accepted" : "left    ",
                         setting_of(candidate.change), report::gain_text(runs.gain()), ruling.why));
  if (accepted) accept(candidate, runs);
}

void Search::accept(const TuneCandidate& candidate, const DuelRuns& runs) {
  fights_.rebase(with(fights_.base(), candidate.change), std::max(longest_s(runs.other), 1e-6));
  facts_ = runs.last->facts;
  record_.accept(candidate, runs);
}

/// What gains were measured one behind the other need not be one together.
void Search::prove() {
  bool is_first = true;
  while (!record_.report().patch.empty() && !heard_signal()) {
    if (!is_first && (fights_.is_late() || !fights_.has_time_for(0))) {
      while (!record_.report().patch.empty())
        drop_weakest("the budget does not leave the time to prove what is left of the patch");
      return;
    }
    is_first = false;
    if (holds() || stop_code_) return;
  }
}

/// Whether the patch is a gain over the original; else it is shorter now.
bool Search::holds() {
  const TuneChanges changes = record_.patch_changes();
  tools_.say(fmt::format("proving  the patch of {} key(s) against the original", changes.size()));
  const Duel duel{{}, changes, scope_of(changes), loosest(changes), wish_.tolerance};
  DuelRuns runs;
  const DuelRuling ruling = fight(duel, runs, 0);
  if (stop_code_) return false;
  if (ruling.ruling == Ruling::accepted) {
    record_.note_proof(runs);
    return true;
  }
  drop_weakest(fmt::format("it did not hold in the last proof ({}): {}",
                           report::gain_text(runs.gain()), ruling.why));
  return false;
}

void Search::drop_weakest(const std::string& why) {
  tools_.say("dropped  " + setting_of(record_.drop_weakest(why)) + ": " + why);
}

void Search::end_out_of_time(const std::string& what) {
  record_.end(TuneEnd::budget, "the budget was over before the end of " + what);
}

void Search::end_by_signal(int code) {
  stop_code_ = code == static_cast<int>(ErrorKind::stopped)  // nothing here can be requeued
                   ? static_cast<int>(ErrorKind::terminated)
                   : code;
  record_.end(TuneEnd::stopped, "stopped by a signal");
}

bool Search::heard_signal() {
  if (stop_code_) return true;
  if (const auto code = tools_.stopped()) end_by_signal(*code);
  return stop_code_.has_value();
}

}  // namespace

report::TuneReport tune(const TuneWish& wish, const report::TuneBaseline& baseline,
                        const TuneTools& tools) {
  return Search(wish, baseline, tools).run();
}

}  // namespace trainctl::study
