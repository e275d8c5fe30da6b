#include "study/tune/tune.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "study/tune/candidates.hpp"
#include "study/tune/paired_trials.hpp"
#include "study/tune/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

using report::Ruling;
using report::TuneChange;
using report::TuneChanges;
using report::TuneEnd;

constexpr int kScreeningPairs = 2;  // of a change's first trial
constexpr int kFewestToAccept = static_cast<int>(report::kFewestPairs);

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

/// A change that its trials so far leave undecided.
struct Contender {
  TuneCandidate candidate;
  Comparison comparison;
  ComparisonRuns runs = {};
};

class Search {
 public:
  Search(const TuneWish& wish, const report::TuneBaseline& baseline, const TuneTools& tools)
      : wish_(wish), tools_(tools), trials_(wish, tools), record_(wish, baseline) {}

  report::TuneReport run() {
    diagnose();
    while (!record_.is_over() && step()) {
    }
    if (!stop_code_) prove();
    return record_.finished(trials_.used_s(), stop_code_);
  }

 private:
  void diagnose();
  bool step();
  [[nodiscard]] TuneCandidates candidates();
  std::optional<TuneCandidate> next(const TuneCandidates& found);

  void screen(const TuneCandidate& candidate);
  bool narrow();
  void settle();
  void compare(Contender contender, int pairs);
  void accept(const Contender& contender);
  void end_search(const TuneCandidates& found);

  void prove();
  bool holds(int pairs);
  void drop_weakest(const std::string& why);

  [[nodiscard]] TuneSituation situation() const;
  [[nodiscard]] bool has_time_to_screen() const;
  [[nodiscard]] bool has_obvious_gain() const;
  [[nodiscard]] int next_pairs(const ComparisonRuns& runs) const;
  [[nodiscard]] double upper_gain(const Contender& contender) const;
  [[nodiscard]] double missing_s(std::size_t untested) const;
  void check_failure(const ComparisonRuns& runs);
  void end_by_signal(int code);
  void end_out_of_time(const std::string& what);
  bool heard_signal();

  const TuneWish& wish_;
  const TuneTools& tools_;
  PairedTrials trials_;
  PairNoise noise_;
  TuneRecord record_;
  TuneFacts facts_;
  std::set<std::string> seen_;         // "key=value"
  std::vector<Contender> contenders_;  // compared with trials_.base()
  std::optional<int> stop_code_;       // set: no further run, not even of the proof
};

void Search::diagnose() {
  if (heard_signal()) return;
  const TuneResult result = tools_.run({}, TuneScope::whole, trials_.left_s());
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    if (failure->overdue) return end_out_of_time("the first verdict");
    if (launch::is_stop_code(failure->exit_code)) return end_by_signal(failure->exit_code);
    throw Error(static_cast<ErrorKind>(failure->exit_code),
                "the experiment as it is does not run: " + failure->message);
  }
  const auto& sample = std::get<TuneSample>(result);
  facts_ = sample.facts;
  record_.start(sample);
  trials_.start(record_.report().baseline.run_s);
  tools_.say(
      fmt::format("verdict  {}: {:.0f} % of the time, {:.2f}x without all waits and overhead",
                  sample.verdict.name, 100 * sample.verdict.share, sample.verdict.headroom));
  if (sample.verdict.taken > 0)
    tools_.say(
        fmt::format("warning  other processes took {:.0f} % of the cores: the verdict and "
                    "the gains are less certain",
                    100 * sample.verdict.taken));
}

TuneSituation Search::situation() const {
  const auto checked = tools_.check(trials_.base());
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

/// Screens the next change, or narrows the choice among those that were screened. Returns false
/// where the search is over.
bool Search::step() {
  if (heard_signal()) return false;
  const TuneCandidates found = candidates();
  settle();
  if (has_obvious_gain() && narrow()) return true;
  const std::optional<TuneCandidate> candidate = next(found);
  if (candidate && has_time_to_screen()) {
    screen(*candidate);
    return true;
  }
  if (narrow()) return true;
  end_search(found);
  return false;
}

TuneCandidates Search::candidates() {
  const TuneSituation now = situation();
  TuneCandidates found = tune_candidates(now);
  if (auto first = proposed(now, found)) found.tries.insert(found.tries.begin(), *first);
  record_.note(found);
  return found;
}

/// The first change that was not tried yet and that the experiment accepts.
std::optional<TuneCandidate> Search::next(const TuneCandidates& found) {
  for (const TuneCandidate& candidate : found.tries) {
    if (seen_.contains(setting_of(candidate.change))) continue;
    const auto checked = tools_.check(with(trials_.base(), candidate.change));
    const auto* why = std::get_if<std::string>(&checked);
    if (why == nullptr) return candidate;
    seen_.insert(setting_of(candidate.change));
    record_.leave_out({candidate.change.key, candidate.change.value, *why});
  }
  return std::nullopt;
}

/// Whether the budget leaves the time for a first trial, after it for the most promising change,
/// and for the proof.
bool Search::has_time_to_screen() const {
  constexpr double kPromising = 1.03;
  double reserve_s = 0;
  if (!record_.report().patch.empty()) {
    reserve_s = trials_.proof_s(wish_.repeats);
  } else {
    for (const Contender& each : contenders_) {
      if (each.runs.gain().value.value_or(0) < kPromising) continue;
      const int missing = std::max(wish_.repeats - each.runs.pairs(), 0);
      reserve_s =
          std::max(reserve_s, missing * trials_.pair_s() + trials_.proof_s(kFewestToAccept));
    }
  }
  return trials_.affordable_pairs(reserve_s) >= kScreeningPairs;
}

bool Search::has_obvious_gain() const {
  return std::ranges::any_of(contenders_,
                             [](const Contender& each) { return is_obvious(each.runs); });
}

void Search::screen(const TuneCandidate& candidate) {
  seen_.insert(setting_of(candidate.change));
  tools_.say(fmt::format("trying   {} (was {}): {}", setting_of(candidate.change),
                         candidate.change.before, candidate.reason));
  const TuneChanges other = with(trials_.base(), candidate.change);
  compare({candidate, {trials_.base(), other, scope_of(other), candidate.rule, wish_.tolerance}},
          kScreeningPairs);
}

/// Gives more pairs to the change that may gain the most. Returns false where there is no such
/// change, or no time.
bool Search::narrow() {
  const auto best = std::ranges::max_element(
      contenders_, {}, [this](const Contender& each) { return upper_gain(each); });
  if (best == contenders_.end()) return false;
  const int pairs = next_pairs(best->runs);
  if (pairs <= best->runs.pairs()) return false;
  Contender contender = std::move(*best);
  contenders_.erase(best);
  tools_.say(
      fmt::format("further  {}: {} pairs of runs", setting_of(contender.candidate.change), pairs));
  compare(std::move(contender), pairs);
  return true;
}

double Search::upper_gain(const Contender& contender) const {
  const auto interval = noise_.interval(contender.runs);
  return interval ? interval->high : contender.runs.gain().value.value_or(0);
}

/// The pairs of the change's next trial: `repeats`, then twice as many each time, since an interval
/// that is looked at after every pair excludes 1 too often by chance. Fewer, for the change and for
/// the proof, where the budget leaves no time for more; as many as there are where it leaves none.
int Search::next_pairs(const ComparisonRuns& runs) const {
  const int have = runs.pairs();
  const int wanted = have < wish_.repeats ? wish_.repeats : 2 * have;
  for (const int proof : {wish_.repeats, kFewestToAccept}) {
    const int possible = have + trials_.affordable_pairs(trials_.proof_s(proof));
    if (possible > have && possible >= kFewestToAccept) return std::min(wanted, possible);
  }
  return have;
}

/// Drops the changes that the noise, as far as it is known by now, rules out.
void Search::settle() {
  std::erase_if(contenders_, [this](const Contender& each) {
    const ComparisonRuling ruling = rule_on(each.comparison, each.runs, noise_);
    if (ruling.ruling == Ruling::unclear) return false;
    record_.note_try(each.candidate, each.runs, ruling);
    return true;
  });
}

/// Runs a change to so many pairs, and takes it over, drops it or keeps it as a contender.
void Search::compare(Contender contender, int pairs) {
  trials_.run(contender.comparison, pairs, contender.runs);
  record_.note_contention(contender.runs);
  check_failure(contender.runs);
  if (stop_code_) return;
  const std::string setting = setting_of(contender.candidate.change);
  noise_.update(setting, contender.runs);
  ComparisonRuling ruling = rule_on(contender.comparison, contender.runs, noise_);
  if (trials_.is_late() && ruling.ruling != Ruling::accepted)
    ruling = {Ruling::unclear, ruling.losses, "the budget was over before its runs were"};
  record_.note_try(contender.candidate, contender.runs, ruling);
  const bool accepted = ruling.ruling == Ruling::accepted;
  const bool is_open = ruling.ruling == Ruling::unclear;
  tools_.say(fmt::format("{} {}  {}: {}",
                         accepted  ? "accepted"
                         : is_open ? "open    "
                                   : "left    ",
                         setting, report::gain_text(contender.runs.gain()), ruling.why));
  if (accepted) accept(contender);
  if (is_open) contenders_.push_back(std::move(contender));
}

/// Contenders were compared with another base than the new one, and are screened again.
void Search::accept(const Contender& contender) {
  const ComparisonRuns& runs = contender.runs;
  trials_.rebase(with(trials_.base(), contender.candidate.change),
                 std::max(longest_s(runs.other), 1e-6));
  facts_ = runs.last->facts;
  record_.accept(contender.candidate, runs);
  for (const Contender& each : contenders_) seen_.erase(setting_of(each.candidate.change));
  contenders_.clear();
}

/// Ends the search: nothing is left to try, or no time to try it.
void Search::end_search(const TuneCandidates& found) {
  report::TuneUndecided undecided;
  for (const Contender& each : contenders_) {
    undecided.changes.push_back(setting_of(each.candidate.change));
    undecided.is_noise = undecided.is_noise || each.runs.pairs() >= kFewestToAccept;
  }
  while (const std::optional<TuneCandidate> candidate = next(found)) {
    seen_.insert(setting_of(candidate->change));
    undecided.untested.push_back(setting_of(candidate->change));
  }
  if (undecided.changes.empty() && undecided.untested.empty())
    return record_.end_for_want_of_candidates();
  undecided.more_s = missing_s(undecided.untested.size());
  record_.end_undecided(std::move(undecided));
}

/// Returns the time beyond the budget that is likely to decide everything that is open.
double Search::missing_s(std::size_t untested) const {
  double pairs = static_cast<double>(untested) * wish_.repeats;
  for (const Contender& each : contenders_)
    pairs += noise_.pairs_to_decide(each.runs) - each.runs.pairs();
  const double needed_s = pairs * trials_.pair_s() + trials_.proof_s(wish_.repeats);
  return std::max(needed_s - std::max(trials_.left_s(), 0.0), 0.0);
}

void Search::check_failure(const ComparisonRuns& runs) {
  if (!runs.failed) return;
  if (launch::is_stop_code(runs.failed->exit_code)) return end_by_signal(runs.failed->exit_code);
  if (!runs.base_failed) return;
  stop_code_ = runs.failed->exit_code;
  record_.end(TuneEnd::failed,
              "a run that others are compared with failed: " + runs.failed->message);
}

/// Compares the whole patch with the original, and drops what does not hold: gains that were
/// measured one after the other need not add up.
void Search::prove() {
  bool is_first = true;
  while (!record_.report().patch.empty() && !heard_signal()) {
    const int pairs = std::min(wish_.repeats, trials_.proof_pairs());
    if (!is_first && (trials_.is_late() || pairs < kFewestToAccept)) {
      while (!record_.report().patch.empty())
        drop_weakest("the budget does not leave the time to prove what is left of the patch");
      return;
    }
    is_first = false;
    if (holds(std::max(pairs, kFewestToAccept)) || stop_code_) return;
  }
}

/// Whether the patch is a gain over the original; else its weakest change is dropped.
bool Search::holds(int pairs) {
  const TuneChanges changes = record_.patch_changes();
  tools_.say(fmt::format("proving  the patch of {} key(s) against the original", changes.size()));
  const Comparison comparison{{}, changes, scope_of(changes), loosest(changes), wish_.tolerance};
  ComparisonRuns runs;
  ComparisonRuling ruling;
  for (const int most : {pairs, 2 * pairs}) {
    trials_.run(comparison, most, runs);
    record_.note_contention(runs);
    check_failure(runs);
    if (stop_code_) return false;
    noise_.update("proof", runs);
    ruling = rule_on(comparison, runs, noise_);
    if (trials_.is_late()) end_out_of_time("the proof");
    const bool is_open = ruling.ruling == Ruling::unclear && !trials_.is_late();
    if (!is_open || trials_.proof_pairs() < pairs) break;
  }
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
