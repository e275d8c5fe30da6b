#include "study/tune/tune.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "study/tune/tune_record.hpp"

namespace trainctl::study {
namespace {

using report::TuneChange;
using report::TuneChanges;
using report::TuneDecision;
using report::TunePatchEntry;
using report::TuneStopReason;

constexpr int kScreeningPairs = 2;  // in the first trial of a change
constexpr int kFewestToAccept = static_cast<int>(report::kFewestPairs);

/// Returns the changes with `change` added; it replaces an earlier change of the same key.
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

/// A change that is still undecided after its trials.
struct Contender {
  TuneCandidate candidate;
  Comparison comparison;
  ComparisonRuns runs = {};
};

class Search {
 public:
  Search(const TuneOptions& options, const report::TuneBaseline& baseline, const TuneTools& tools)
      : options_(options), tools_(tools), trials_(options, tools), record_(options, baseline) {}

  report::TuneReport run() {
    diagnose();
    while (!record_.is_over() && step()) {
    }
    if (!stop_code_) confirm_gains();
    return record_.finished(trials_.used_s(), stop_code_);
  }

 private:
  void diagnose() {
    if (check_signal()) return;
    const TuneResult result = tools_.run({}, TuneScope::whole, trials_.left_s());
    if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
      if (failure->overdue) return end_out_of_time("the first run");
      if (launch::is_stop_code(failure->exit_code)) return end_by_signal(failure->exit_code);
      throw Error(static_cast<ErrorKind>(failure->exit_code),
                  "cannot run the unchanged experiment: " + failure->message);
    }
    const auto& sample = std::get<TuneSample>(result);
    facts_ = sample.facts;
    record_.start(sample);
    trials_.start(record_.report().baseline.run_s);
    tools_.say("bottleneck  " + report::text_of(sample.verdict));
    if (sample.verdict.taken > 0)
      tools_.say("warning  other processes make the bottleneck and all gains less certain");
  }

  /// Screens the next change, or gives a screened change more pairs. Returns false if the search is
  /// over.
  bool step() {
    if (check_signal()) return false;
    const TuneCandidates found = candidates();
    drop_ruled_out();
    if (has_obvious_gain() && add_pairs()) return true;
    const std::optional<TuneCandidate> candidate = next(found);
    if (candidate && has_time_to_screen()) {
      screen(*candidate);
      return true;
    }
    if (add_pairs()) return true;
    end_search(found);
    return false;
  }

  [[nodiscard]] TuneCandidates candidates() {
    const TuneSituation now = situation();
    TuneCandidates found = tune_candidates(now);
    if (auto first = suggested_candidate(now, found))
      found.tries.insert(found.tries.begin(), *first);
    record_.note(found);
    return found;
  }

  std::optional<TuneCandidate> next(const TuneCandidates& found) {
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

  void screen(const TuneCandidate& candidate) {
    seen_.insert(setting_of(candidate.change));
    tools_.say(fmt::format("trying   {} (was {}): {}", setting_of(candidate.change),
                           candidate.change.before, candidate.reason));
    const TuneChanges other = with(trials_.base(), candidate.change);
    compare(
        {candidate, {trials_.base(), other, scope_of(other), candidate.rule, options_.tolerance}},
        kScreeningPairs);
  }

  /// Gives more pairs to the change with the largest possible gain. Returns false if there is no
  /// such change or no time.
  bool add_pairs() {
    const auto best = std::ranges::max_element(
        contenders_, {}, [this](const Contender& each) { return upper_gain(each); });
    if (best == contenders_.end()) return false;
    const int pairs = next_pairs(best->runs);
    if (pairs <= best->runs.pairs()) return false;
    Contender contender = std::move(*best);
    contenders_.erase(best);
    tools_.say(fmt::format("repeat   {}: {} pairs of runs", setting_of(contender.candidate.change),
                           pairs));
    compare(std::move(contender), pairs);
    return true;
  }

  /// Drops the changes that the current estimate of the noise rules out.
  void drop_ruled_out() {
    std::erase_if(contenders_, [this](const Contender& each) {
      const ComparisonRuling ruling = rule_on(each.comparison, each.runs, noise_);
      if (ruling.ruling == TuneDecision::unclear) return false;
      record_.note_try(each.candidate, each.runs, ruling);
      return true;
    });
  }

  /// Runs a change up to that many pairs, then accepts it, drops it or keeps it as a contender.
  void compare(Contender contender, int pairs) {
    trials_.run(contender.comparison, pairs, contender.runs);
    record_.note_contention(contender.runs);
    check_failure(contender.runs);
    if (stop_code_) return;
    const std::string setting = setting_of(contender.candidate.change);
    noise_.update(setting, contender.runs);
    ComparisonRuling ruling = rule_on(contender.comparison, contender.runs, noise_);
    if (trials_.is_late() && ruling.ruling != TuneDecision::accepted)
      ruling = {TuneDecision::unclear, ruling.losses, "the budget ended during the runs"};
    record_.note_try(contender.candidate, contender.runs, ruling);
    const bool accepted = ruling.ruling == TuneDecision::accepted;
    const bool is_open = ruling.ruling == TuneDecision::unclear;
    tools_.say(fmt::format("{} {}: gain {}; {}",
                           accepted  ? "accepted"
                           : is_open ? "unclear "
                                     : "rejected",
                           setting, report::gain_text(contender.runs.gain()), ruling.why));
    if (accepted) accept(contender);
    if (is_open) contenders_.push_back(std::move(contender));
  }

  /// Makes the change part of the base. Contenders were compared with the old base, so they are
  /// screened again.
  void accept(const Contender& contender) {
    const ComparisonRuns& runs = contender.runs;
    trials_.rebase(with(trials_.base(), contender.candidate.change),
                   std::max(longest_s(runs.other), 1e-6));
    facts_ = runs.last->facts;
    record_.accept(contender.candidate, runs);
    for (const Contender& each : contenders_) seen_.erase(setting_of(each.candidate.change));
    contenders_.clear();
  }

  void end_search(const TuneCandidates& found) {
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
      return record_.end_without_candidates();
    undecided.more_s = missing_s(undecided.untested.size());
    record_.end_undecided(std::move(undecided));
  }

  /// Compares the whole patch with the original and drops changes without a confirmed gain, because
  /// gains that were measured one after the other need not add up.
  void confirm_gains() {
    bool is_first = true;
    while (!record_.report().patch.empty() && !check_signal()) {
      const int pairs = std::min(options_.repeats, trials_.proof_pairs());
      if (!is_first && (trials_.is_late() || pairs < kFewestToAccept)) {
        while (!record_.report().patch.empty())
          drop_weakest("the final comparison confirmed no gain, and no time is left for another");
        return;
      }
      is_first = false;
      if (confirm_patch(std::max(pairs, kFewestToAccept)) || stop_code_) return;
    }
  }

  /// Returns whether the patch is faster than the original; if not, drops its weakest change.
  bool confirm_patch(int pairs) {
    const TuneChanges changes = patch_changes(record_.report());
    tools_.say(fmt::format("confirm  comparing all {} accepted change{} with the original",
                           changes.size(), plural(changes.size())));
    const Comparison comparison{
        {}, changes, scope_of(changes), loosest(changes), options_.tolerance};
    ComparisonRuns runs;
    ComparisonRuling ruling;
    for (const int most : {pairs, 2 * pairs}) {
      trials_.run(comparison, most, runs);
      record_.note_contention(runs);
      check_failure(runs);
      if (stop_code_) return false;
      noise_.update("proof", runs);
      ruling = rule_on(comparison, runs, noise_);
      if (trials_.is_late()) end_out_of_time("the final comparison");
      const bool is_open = ruling.ruling == TuneDecision::unclear && !trials_.is_late();
      if (!is_open || trials_.proof_pairs() < pairs) break;
    }
    if (ruling.ruling == TuneDecision::accepted) {
      record_.note_proof(runs);
      return true;
    }
    drop_weakest(fmt::format("weakest change; the final comparison confirmed no gain ({}): {}",
                             report::gain_text(runs.gain()), ruling.why));
    return false;
  }

  void drop_weakest(const std::string& why) {
    tools_.say("dropped  " + setting_of(record_.drop_weakest(why)) + ": " + why);
  }

  [[nodiscard]] TuneSituation situation() const {
    const auto checked = tools_.check(trials_.base());
    if (const auto* why = std::get_if<std::string>(&checked)) throw Error(ErrorKind::config, *why);
    TuneSituation now{.experiment = std::get<spec::Experiment>(checked),
                      .verdict = record_.report().after,
                      .facts = facts_,
                      .no_capture = {},
                      .whole_epochs = record_.report().baseline.part >= 1,
                      .allowed = options_.allowed};
    now.no_capture = tools_.no_capture(now.experiment);
    return now;
  }

  /// Returns whether the budget leaves time for a first trial, for one of the most promising change
  /// after it, and for the final comparison.
  [[nodiscard]] bool has_time_to_screen() const {
    constexpr double kPromising = 1.03;
    double reserve_s = 0;
    if (!record_.report().patch.empty()) {
      reserve_s = trials_.proof_s(options_.repeats);
    } else {
      for (const Contender& each : contenders_) {
        if (each.runs.gain().value.value_or(0) < kPromising) continue;
        const int missing = std::max(options_.repeats - each.runs.pairs(), 0);
        reserve_s =
            std::max(reserve_s, missing * trials_.pair_s() + trials_.proof_s(kFewestToAccept));
      }
    }
    return trials_.affordable_pairs(reserve_s) >= kScreeningPairs;
  }

  [[nodiscard]] bool has_obvious_gain() const {
    return std::ranges::any_of(contenders_,
                               [](const Contender& each) { return is_obvious(each.runs); });
  }

  /// Returns the pairs of the change's next trial: `repeats`, then twice as many each time, because
  /// an interval that is examined after every pair excludes 1 too often by chance. If the budget is
  /// too short, returns fewer, so that the change and the final comparison fit; at least the pairs
  /// that exist.
  [[nodiscard]] int next_pairs(const ComparisonRuns& runs) const {
    const int have = runs.pairs();
    const int wanted = have < options_.repeats ? options_.repeats : 2 * have;
    for (const int proof : {options_.repeats, kFewestToAccept}) {
      const int possible = have + trials_.affordable_pairs(trials_.proof_s(proof));
      if (possible > have && possible >= kFewestToAccept) return std::min(wanted, possible);
    }
    return have;
  }

  [[nodiscard]] double upper_gain(const Contender& contender) const {
    const auto interval = noise_.interval(contender.runs);
    return interval ? interval->high : contender.runs.gain().value.value_or(0);
  }

  /// Returns the seconds beyond the budget that are likely to decide every open change.
  [[nodiscard]] double missing_s(std::size_t untested) const {
    double pairs = static_cast<double>(untested) * options_.repeats;
    for (const Contender& each : contenders_)
      pairs += noise_.pairs_to_decide(each.runs) - each.runs.pairs();
    const double needed_s = pairs * trials_.pair_s() + trials_.proof_s(options_.repeats);
    return std::max(needed_s - std::max(trials_.left_s(), 0.0), 0.0);
  }

  void check_failure(const ComparisonRuns& runs) {
    if (!runs.failed) return;
    if (launch::is_stop_code(runs.failed->exit_code)) return end_by_signal(runs.failed->exit_code);
    if (!runs.base_failed) return;
    stop_code_ = runs.failed->exit_code;
    record_.end(TuneStopReason::failed,
                "a run of the baseline failed: " + one_line(runs.failed->message));
  }

  void end_by_signal(int code) {
    stop_code_ = code == static_cast<int>(ErrorKind::stopped)  // tune cannot be requeued
                     ? static_cast<int>(ErrorKind::terminated)
                     : code;
    record_.end(TuneStopReason::stopped, "stopped by a signal");
  }

  void end_out_of_time(const std::string& run) {
    record_.end(TuneStopReason::budget, "the budget ended during " + run);
  }

  bool check_signal() {
    if (stop_code_) return true;
    if (const auto code = tools_.stopped()) end_by_signal(*code);
    return stop_code_.has_value();
  }

  const TuneOptions& options_;
  const TuneTools& tools_;
  PairedTrials trials_;
  PairNoise noise_;
  TuneRecord record_;
  TuneFacts facts_;
  std::set<std::string> seen_;         // "key=value"
  std::vector<Contender> contenders_;  // compared with trials_.base()
  std::optional<int> stop_code_;  // if set, no further run starts, not even of the final comparison
};

}  // namespace

report::TuneChanges patch_changes(const report::TuneReport& report) {
  report::TuneChanges changes;
  for (const TunePatchEntry& entry : report.patch) changes.push_back(entry.change);
  return changes;
}

report::TuneReport tune(const TuneOptions& options, const report::TuneBaseline& baseline,
                        const TuneTools& tools) {
  return Search(options, baseline, tools).run();
}

}  // namespace trainctl::study
