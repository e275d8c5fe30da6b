#include "study/tune.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

using report::Ruling;
using report::TuneChange;
using report::TuneChanges;
using report::TuneEnd;
using report::TunePatchEntry;
using report::TuneTry;

std::string setting_of(const TuneChange& change) { return change.key + "=" + change.value; }

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

/// Two steps along one key.
report::Speedup product(const report::Speedup& a, const report::Speedup& b) {
  report::Speedup both{.value = {}, .ci95 = {}, .pairs = std::min(a.pairs, b.pairs)};
  if (a.value && b.value) both.value = *a.value * *b.value;
  if (a.ci95 && b.ci95)
    both.ci95 = report::Interval{a.ci95->low * b.ci95->low, a.ci95->high * b.ci95->high};
  return both;
}

LossRule loosest(const TuneChanges& changes) {
  LossRule rule = LossRule::same;
  for (const TuneChange& change : changes) rule = std::max(rule, loss_rule_of(change.key));
  return rule;
}

bool is_of_saving(std::string_view key) { return key.starts_with("checkpoint."); }

/// The setting that the verdict proposes itself, as a candidate; nothing where it is none that tune
/// may try, or there is none.
std::optional<TuneCandidate> proposed(const TuneSituation& now, const TuneCandidates& found) {
  constexpr std::array kFurther{"checkpoint.async", "loader.read_ahead"};
  const std::string& setting = now.verdict.setting;
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return std::nullopt;
  TuneCandidate one{.change = {.key = setting.substr(0, equals),
                               .before = "unset",
                               .value = setting.substr(equals + 1)},
                    .reason = now.verdict.advice,
                    .rule = loss_rule_of(setting.substr(0, equals))};
  const auto same = [&](const TuneCandidate& each) { return each.change.key == one.change.key; };
  if (const auto known = std::ranges::find_if(found.tries, same); known != found.tries.end()) {
    one.change.before = known->change.before;
    return one;
  }
  // Saves weigh more in epochs that are shortened.
  if (is_of_saving(one.change.key) && !now.whole_epochs) return std::nullopt;
  if (std::ranges::find(kFurther, std::string_view(one.change.key)) == kFurther.end())
    return std::nullopt;
  one.change.before = is_of_saving(one.change.key) ? "false" : "0";
  return one;
}

/// Verdicts whose cure is not for tune to try unless it may.
bool has_other_cure(const report::TuneVerdict& verdict) {
  constexpr std::array kNames{"checkpoint_bound", "evaluation_bound"};
  return is_slow_rank(verdict) ||
         std::ranges::any_of(kNames, [&](const char* name) { return verdict.name == name; });
}

class Search {
 public:
  Search(const TuneWish& wish, const report::TuneBaseline& baseline, const TuneTools& tools)
      : wish_(wish),
        tools_(tools),
        began_(tools.clock.now()),
        run_s_(baseline.run_s),
        original_s_(baseline.run_s) {
    report_.budget_s = wish.budget_s;
    report_.repeats = wish.repeats;
    report_.tolerance = wish.tolerance;
    report_.baseline = baseline;
  }

  report::TuneReport run() {
    diagnose();
    while (!is_over_ && step()) {
    }
    if (!stop_code_) prove();
    return finished();
  }

 private:
  void diagnose();
  bool step();
  void try_one(const TuneCandidate& candidate);
  void accept(const TuneCandidate& candidate, const DuelRuns& runs);
  void prove();
  bool holds();
  void drop_weakest(const std::string& why);
  report::TuneReport finished();

  std::optional<TuneCandidate> next(const TuneCandidates& found);
  DuelRuling fight(const Duel& duel, DuelRuns& runs, int more);
  DuelRuling compare(const Duel& duel, DuelRuns& runs, int pairs);
  void learn_time(const Duel& duel, const DuelRuns& runs);
  void check_failure(const DuelRuns& runs);
  void note(const TuneCandidates& found);
  void leave_out(const report::TuneLeftOut& one);
  void end(TuneEnd how, std::string why);
  void end_by_signal(int code);
  void end_out_of_time(const std::string& what);
  bool heard_signal();
  void end_for_want_of_candidates();

  [[nodiscard]] double used_s() const { return wish_.spent_s + tools_.clock.now() - began_; }
  [[nodiscard]] double left_s() const { return wish_.budget_s - used_s(); }
  [[nodiscard]] double comparison_s() const { return 2.0 * wish_.repeats * run_s_; }
  /// So many comparisons end within the budget, and behind them one with the original: the proof.
  [[nodiscard]] bool has_time_for(int comparisons) const {
    return comparisons * comparison_s() + 2.0 * wish_.repeats * original_s_ <= left_s();
  }
  [[nodiscard]] TuneSituation situation() const;
  [[nodiscard]] TuneChanges patch_changes() const;
  [[nodiscard]] long count(Ruling ruling) const {
    return std::ranges::count(report_.tried, ruling, &TuneTry::ruling);
  }

  const TuneWish& wish_;
  const TuneTools& tools_;
  double began_;
  double run_s_;       // of what changes are compared with
  double original_s_;  // of the experiment as it is
  report::TuneReport report_;
  TuneChanges base_;
  TuneFacts facts_;
  std::set<std::string> seen_;    // "key=value"
  std::optional<int> stop_code_;  // set: no further run, not even of the proof
  bool is_over_ = false;
  bool is_late_ = false;  // a run was ended with the budget
};

void Search::diagnose() {
  if (heard_signal()) return;
  const TuneResult result = tools_.run({}, TuneScope::whole, left_s());
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    if (failure->overdue) return end_out_of_time("the first verdict");
    if (launch::is_stop_code(failure->exit_code)) return end_by_signal(failure->exit_code);
    throw Error(static_cast<ErrorKind>(failure->exit_code),
                "the experiment as it is does not run: " + failure->message);
  }
  const auto& sample = std::get<TuneSample>(result);
  facts_ = sample.facts;
  report_.before = report_.after = sample.verdict;
  report_.baseline.samples_per_s = sample.trial.samples_per_s;
  report_.baseline.num_threads = sample.facts.num_threads;
  report_.baseline.num_workers = sample.facts.num_workers;
  report_.baseline.data_digest = sample.trial.data_digest;
  if (run_s_ <= 0) run_s_ = original_s_ = report_.baseline.run_s = sample.trial.total_s;
  tools_.say(fmt::format("verdict  {}: {:.0f} % of the time, at most {:.2f}x to be won",
                         report_.before.name, 100 * report_.before.share, report_.before.headroom));
}

TuneSituation Search::situation() const {
  const auto checked = tools_.check(base_);
  if (const auto* why = std::get_if<std::string>(&checked)) throw Error(ErrorKind::config, *why);
  TuneSituation now{.experiment = std::get<spec::Experiment>(checked),
                    .verdict = report_.after,
                    .facts = facts_,
                    .no_capture = {},
                    .whole_epochs = report_.baseline.part >= 1,
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
  note(found);
  const std::optional<TuneCandidate> candidate = next(found);
  if (!candidate) {
    end_for_want_of_candidates();
    return false;
  }
  if (!has_time_for(1)) {
    end(TuneEnd::budget,
        fmt::format("the budget does not leave the time for {}: a comparison takes about {}, and "
                    "so does the proof behind it",
                    setting_of(candidate->change), human_duration(comparison_s())));
    return false;
  }
  try_one(*candidate);
  return true;
}

/// The first that was not seen yet and that the experiment takes.
std::optional<TuneCandidate> Search::next(const TuneCandidates& found) {
  for (const TuneCandidate& candidate : found.tries) {
    if (seen_.contains(setting_of(candidate.change))) continue;
    const auto checked = tools_.check(with(base_, candidate.change));
    const auto* why = std::get_if<std::string>(&checked);
    if (why == nullptr) return candidate;
    seen_.insert(setting_of(candidate.change));
    leave_out({candidate.change.key, candidate.change.value, *why});
  }
  return std::nullopt;
}

/// Runs all pairs, and as many again where they leave it open and the time is there for `more`
/// comparisons and the proof.
DuelRuling Search::fight(const Duel& duel, DuelRuns& runs, int more) {
  DuelRuling ruling = compare(duel, runs, wish_.repeats);
  learn_time(duel, runs);
  if (ruling.ruling == Ruling::unclear && !is_late_ && has_time_for(more)) {
    tools_.say("undecided  as many runs again");
    ruling = compare(duel, runs, 2 * wish_.repeats);
  }
  check_failure(runs);
  return ruling;
}

/// No run of the other goes on for long beyond the base, and none at all beyond the budget; what
/// that one cuts off is judged by the pairs before.
DuelRuling Search::compare(const Duel& duel, DuelRuns& runs, int pairs) {
  constexpr double kSlowest = 3;
  const RunTune run = [&](const TuneChanges& changes, TuneScope scope) {
    const bool is_base = changes == duel.base;
    const double slow_s = kSlowest * std::max(run_s_, longest_s(runs.base));
    const double left = left_s();
    TuneResult result = tools_.run(changes, scope, is_base ? left : std::min(left, slow_s));
    const auto* failure = std::get_if<report::TrialFailure>(&result);
    is_late_ = failure != nullptr && failure->overdue && (is_base || left < slow_s);
    return result;
  };
  run_pairs(duel, pairs, run, runs);
  if (!is_late_) return judge(duel, runs);
  runs.failed.reset();
  runs.base_failed = false;
  DuelRuling ruling = judge(duel, runs);
  if (ruling.ruling != Ruling::accepted)
    ruling = {Ruling::unclear, ruling.losses, "the budget was over before its runs were"};
  return ruling;
}

/// A candidate's runs tell nothing of what it costs to try others.
void Search::learn_time(const Duel& duel, const DuelRuns& runs) {
  const double longest = longest_s(runs.base);
  if (longest <= 0) return;
  if (duel.base.empty()) original_s_ = longest;
  if (duel.base == base_) run_s_ = longest;
}

void Search::check_failure(const DuelRuns& runs) {
  if (is_late_) end_out_of_time("the last comparison");
  if (!runs.failed) return;
  if (launch::is_stop_code(runs.failed->exit_code)) return end_by_signal(runs.failed->exit_code);
  if (!runs.base_failed) return;
  stop_code_ = runs.failed->exit_code;
  end(TuneEnd::failed, "a run that others are compared with failed: " + runs.failed->message);
}

void Search::try_one(const TuneCandidate& candidate) {
  seen_.insert(setting_of(candidate.change));
  tools_.say(fmt::format("trying   {} (was {}): {}", setting_of(candidate.change),
                         candidate.change.before, candidate.reason));
  const TuneChanges other = with(base_, candidate.change);
  const Duel duel{base_, other, scope_of(other), candidate.rule, wish_.tolerance};
  DuelRuns runs;
  const DuelRuling ruling = fight(duel, runs, 1);
  if (stop_code_) return;
  report_.tried.push_back(
      {candidate.change, candidate.reason, ruling.ruling, runs.gain(), ruling.losses, ruling.why});
  const bool accepted = ruling.ruling == Ruling::accepted;
  tools_.say(fmt::format("{} {}  {}: {}", accepted ? "accepted" : "left    ",
                         setting_of(candidate.change), report::gain_text(runs.gain()), ruling.why));
  if (accepted) accept(candidate, runs);
}

void Search::accept(const TuneCandidate& candidate, const DuelRuns& runs) {
  base_ = with(base_, candidate.change);
  run_s_ = std::max(longest_s(runs.other), 1e-6);
  facts_ = runs.last->facts;
  report_.after = runs.last->verdict;
  auto& patch = report_.patch;
  const auto same = std::ranges::find_if(
      patch, [&](const TunePatchEntry& entry) { return entry.change.key == candidate.change.key; });
  if (same == patch.end()) {
    patch.push_back({candidate.change, runs.gain(), candidate.reason});
    return;
  }
  same->change.value = candidate.change.value;
  same->gain = product(same->gain, runs.gain());
}

TuneChanges Search::patch_changes() const {
  TuneChanges changes;
  for (const TunePatchEntry& entry : report_.patch) changes.push_back(entry.change);
  return changes;
}

/// What gains were measured one behind the other need not be one together.
void Search::prove() {
  bool is_first = true;
  while (!report_.patch.empty() && !heard_signal()) {
    if (!is_first && (is_late_ || !has_time_for(0))) {
      while (!report_.patch.empty())
        drop_weakest("the budget does not leave the time to prove what is left of the patch");
      return;
    }
    is_first = false;
    if (holds() || stop_code_) return;
  }
}

/// Whether the patch is a gain over the original; else it is shorter now.
bool Search::holds() {
  const TuneChanges changes = patch_changes();
  tools_.say(fmt::format("proving  the patch of {} key(s) against the original", changes.size()));
  const Duel duel{{}, changes, scope_of(changes), loosest(changes), wish_.tolerance};
  DuelRuns runs;
  const DuelRuling ruling = fight(duel, runs, 0);
  if (stop_code_) return false;
  if (ruling.ruling == Ruling::accepted) {
    report_.gain = runs.gain();
    if (runs.last) report_.after = runs.last->verdict;
    return true;
  }
  drop_weakest(fmt::format("it did not hold in the last proof ({}): {}",
                           report::gain_text(runs.gain()), ruling.why));
  return false;
}

void Search::drop_weakest(const std::string& why) {
  const auto low = [](const TunePatchEntry& entry) {
    return entry.gain.ci95 ? entry.gain.ci95->low : 0;
  };
  const auto weakest = std::ranges::min_element(report_.patch, {}, low);
  for (TuneTry& one : report_.tried) {
    if (one.change.key != weakest->change.key || one.ruling != Ruling::accepted) continue;
    one.ruling = Ruling::dropped;
    one.why = why;
  }
  tools_.say("dropped  " + setting_of(weakest->change) + ": " + why);
  report_.patch.erase(weakest);
  if (report_.patch.empty()) report_.after = report_.before;
}

/// The last word on each key is kept; advice stays.
void Search::note(const TuneCandidates& found) {
  for (const report::TuneLeftOut& one : found.left_out) leave_out(one);
  for (const std::string& line : found.advice) {
    if (std::ranges::find(report_.advice, line) == report_.advice.end())
      report_.advice.push_back(line);
  }
}

void Search::leave_out(const report::TuneLeftOut& one) {
  const auto same = std::ranges::find_if(report_.left_out, [&](const report::TuneLeftOut& each) {
    return each.key == one.key && each.value == one.value;
  });
  if (same == report_.left_out.end()) {
    report_.left_out.push_back(one);
  } else {
    *same = one;
  }
}

void Search::end(TuneEnd how, std::string why) {
  report_.end = how;
  report_.ended = std::move(why);
  is_over_ = true;
}

void Search::end_out_of_time(const std::string& what) {
  end(TuneEnd::budget, "the budget was over before the end of " + what);
}

void Search::end_by_signal(int code) {
  stop_code_ = code == static_cast<int>(ErrorKind::stopped)  // nothing here can be requeued
                   ? static_cast<int>(ErrorKind::terminated)
                   : code;
  end(TuneEnd::stopped, "stopped by a signal");
}

bool Search::heard_signal() {
  if (stop_code_) return true;
  if (const auto code = tools_.stopped()) end_by_signal(*code);
  return stop_code_.has_value();
}

void Search::end_for_want_of_candidates() {
  if (!report_.patch.empty()) return end(TuneEnd::nothing_left, "nothing is left to try");
  if (const long open = count(Ruling::unclear); open > 0)
    return end(TuneEnd::nothing_left,
               fmt::format("{} change(s) looked faster, but the runs are too noisy to tell; "
                           "more --repeats and a quieter machine would",
                           open));
  if (has_other_cure(report_.before))
    return end(TuneEnd::nothing_left,
               fmt::format("no key that may be tried helps a run that is {}", report_.before.name));
  const std::string tries =
      report_.tried.empty()
          ? fmt::format("no further key touches a run that is {}", report_.before.name)
          : fmt::format("none of {} change(s) is a gain", report_.tried.size());
  end(TuneEnd::nothing_to_fix, "nothing to fix: " + tries);
}

report::TuneReport Search::finished() {
  std::erase_if(report_.left_out, [&](const report::TuneLeftOut& one) {
    return one.value.empty() && std::ranges::any_of(report_.tried, [&](const TuneTry& tried) {
             return tried.change.key == one.key;
           });
  });
  report_.used_s = used_s();
  const bool looked_faster = count(Ruling::unclear) + count(Ruling::dropped) > 0;
  const bool tried_nothing = report_.end == TuneEnd::budget && report_.tried.empty();
  if (stop_code_) {
    report_.exit_code = *stop_code_;
  } else if (report_.patch.empty() && (looked_faster || tried_nothing)) {
    report_.exit_code = static_cast<int>(ErrorKind::inconclusive);
  }
  return std::move(report_);
}

}  // namespace

report::TuneReport tune(const TuneWish& wish, const report::TuneBaseline& baseline,
                        const TuneTools& tools) {
  return Search(wish, baseline, tools).run();
}

}  // namespace trainctl::study
