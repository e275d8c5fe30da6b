#include "study/tune/search_report.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace trainctl::study {
namespace {

using report::Ruling;
using report::TuneEnd;
using report::TunePatchEntry;
using report::TuneTry;

/// Two steps along one key.
report::Speedup product(const report::Speedup& a, const report::Speedup& b) {
  report::Speedup both{.value = {}, .ci95 = {}, .pairs = std::min(a.pairs, b.pairs)};
  if (a.value && b.value) both.value = *a.value * *b.value;
  if (a.ci95 && b.ci95)
    both.ci95 = report::Interval{a.ci95->low * b.ci95->low, a.ci95->high * b.ci95->high};
  return both;
}

/// Verdicts whose cure is not for tune to try unless it may.
bool has_other_cure(const report::TuneVerdict& verdict) {
  constexpr std::array kNames{"checkpoint_bound", "evaluation_bound"};
  return is_slow_rank(verdict) ||
         std::ranges::any_of(kNames, [&](const char* name) { return verdict.name == name; });
}

}  // namespace

std::string setting_of(const report::TuneChange& change) { return change.key + "=" + change.value; }

TuneRecord::TuneRecord(const TuneWish& wish, const report::TuneBaseline& baseline) {
  report_.budget_s = wish.budget_s;
  report_.repeats = wish.repeats;
  report_.tolerance = wish.tolerance;
  report_.baseline = baseline;
}

void TuneRecord::start(const TuneSample& original) {
  report_.before = report_.after = original.verdict;
  most_taken_ = std::max(original.verdict.taken, original.trial.taken);
  report_.baseline.samples_per_s = original.trial.samples_per_s;
  report_.baseline.num_threads = original.facts.num_threads;
  report_.baseline.num_workers = original.facts.num_workers;
  report_.baseline.data_digest = original.trial.data_digest;
  if (report_.baseline.run_s <= 0) report_.baseline.run_s = original.trial.total_s;
}

void TuneRecord::note(const TuneCandidates& found) {
  for (const report::TuneLeftOut& one : found.left_out) leave_out(one);
  for (const std::string& line : found.advice) {
    if (std::ranges::find(report_.advice, line) == report_.advice.end())
      report_.advice.push_back(line);
  }
}

void TuneRecord::leave_out(const report::TuneLeftOut& one) {
  const auto same = std::ranges::find_if(report_.left_out, [&](const report::TuneLeftOut& each) {
    return each.key == one.key && each.value == one.value;
  });
  if (same == report_.left_out.end()) {
    report_.left_out.push_back(one);
  } else {
    *same = one;
  }
}

void TuneRecord::note_contention(const ComparisonRuns& runs) {
  for (const report::BenchRow* row : {&runs.base, &runs.other}) {
    for (const report::Trial& trial : row->trials) most_taken_ = std::max(most_taken_, trial.taken);
  }
}

void TuneRecord::note_try(const TuneCandidate& candidate, const ComparisonRuns& runs,
                          const ComparisonRuling& ruling) {
  const TuneTry one{candidate.change, candidate.reason, ruling.ruling,
                    runs.gain(),      ruling.losses,    ruling.why};
  const auto same = std::ranges::find_if(report_.tried, [&](const TuneTry& each) {
    return setting_of(each.change) == setting_of(one.change);
  });
  if (same == report_.tried.end()) {
    report_.tried.push_back(one);
  } else {
    *same = one;
  }
}

void TuneRecord::accept(const TuneCandidate& candidate, const ComparisonRuns& runs) {
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

void TuneRecord::note_proof(const ComparisonRuns& runs) {
  report_.gain = runs.gain();
  if (runs.last) report_.after = runs.last->verdict;
}

report::TuneChange TuneRecord::drop_weakest(const std::string& why) {
  const auto low = [](const TunePatchEntry& entry) {
    return entry.gain.ci95 ? entry.gain.ci95->low : 0;
  };
  const auto weakest = std::ranges::min_element(report_.patch, {}, low);
  for (TuneTry& one : report_.tried) {
    if (one.change.key != weakest->change.key || one.ruling != Ruling::accepted) continue;
    one.ruling = Ruling::dropped;
    one.why = why;
  }
  const report::TuneChange dropped = weakest->change;
  report_.patch.erase(weakest);
  if (report_.patch.empty()) report_.after = report_.before;
  return dropped;
}

void TuneRecord::end(TuneEnd how, std::string why) {
  report_.end = how;
  report_.ended = std::move(why);
  is_over_ = true;
}

void TuneRecord::end_for_want_of_candidates() {
  if (!report_.patch.empty()) return end(TuneEnd::nothing_left, "nothing is left to try");
  if (most_taken_ > 0)
    return end(TuneEnd::machine_busy,
               fmt::format("undecided: other processes took {:.0f} % of the cores; end or move "
                           "them and tune again",
                           100 * most_taken_));
  if (has_other_cure(report_.before))
    return end(TuneEnd::nothing_left,
               fmt::format("no key that may be tried helps a run that is {}", report_.before.name));
  if (const std::string advice = untested_advice(); !advice.empty())
    return end(
        TuneEnd::nothing_left,
        fmt::format("no change that was tried is a gain; the advice was not tested: {}", advice));
  const std::string tries =
      report_.tried.empty()
          ? fmt::format("no further key touches a run that is {}", report_.before.name)
          : fmt::format("none of {} change(s) is a gain", report_.tried.size());
  end(TuneEnd::nothing_to_fix, "nothing to fix: " + tries);
}

/// The setting that the verdict proposes and why it was not tried; empty: it was, or there is none.
std::string TuneRecord::untested_advice() const {
  const std::string& setting = report_.after.setting;
  const bool was_tried = std::ranges::any_of(
      report_.tried, [&](const TuneTry& each) { return setting_of(each.change) == setting; });
  if (setting.empty() || was_tried) return {};
  const std::string key = setting.substr(0, setting.find('='));
  const auto reason = std::ranges::find(report_.left_out, key, &report::TuneLeftOut::key);
  const std::string why =
      reason == report_.left_out.end() ? "tune does not try this key" : reason->why;
  return fmt::format("{} ({})", setting, why);
}

void TuneRecord::end_undecided(report::TuneUndecided undecided) {
  const std::string time = report::more_time_text(undecided.more_s);
  std::string why;
  if (undecided.changes.empty()) {
    why = fmt::format("the budget is over: {} are needed to try {}", time,
                      fmt::join(undecided.untested, ", "));
  } else {
    why = fmt::format("{}: {} would decide {}",
                      undecided.is_noise ? "too noisy" : "the budget is over", time,
                      fmt::join(undecided.changes, ", "));
    if (!undecided.untested.empty())
      why += fmt::format("; not tried: {}", fmt::join(undecided.untested, ", "));
  }
  report_.undecided = std::move(undecided);
  end(TuneEnd::budget, std::move(why));
}

report::TuneChanges TuneRecord::patch_changes() const {
  report::TuneChanges changes;
  for (const TunePatchEntry& entry : report_.patch) changes.push_back(entry.change);
  return changes;
}

report::TuneReport TuneRecord::finished(double used_s, std::optional<int> stop_code) {
  std::erase_if(report_.left_out, [&](const report::TuneLeftOut& one) {
    return one.value.empty() && std::ranges::any_of(report_.tried, [&](const TuneTry& tried) {
             return tried.change.key == one.key;
           });
  });
  report_.used_s = used_s;
  const bool looked_faster = count(Ruling::unclear) + count(Ruling::dropped) > 0;
  const bool is_undecided = report_.end == TuneEnd::budget || report_.end == TuneEnd::machine_busy;
  if (stop_code) {
    report_.exit_code = *stop_code;
  } else if (report_.patch.empty() && (looked_faster || is_undecided)) {
    report_.exit_code = static_cast<int>(ErrorKind::inconclusive);
  }
  return std::move(report_);
}

long TuneRecord::count(Ruling ruling) const {
  return std::ranges::count(report_.tried, ruling, &TuneTry::ruling);
}

}  // namespace trainctl::study
