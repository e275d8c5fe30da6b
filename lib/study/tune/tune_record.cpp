#include "study/tune/tune_record.hpp"

#include "base/error.hpp"

namespace trainctl::study {

using report::TuneDecision;
using report::TunePatchEntry;
using report::TuneStopReason;
using report::TuneTrial;

namespace {

report::Speedup product(const report::Speedup& a, const report::Speedup& b) {
  report::Speedup both{.value = {}, .ci95 = {}, .pairs = std::min(a.pairs, b.pairs)};
  if (a.value && b.value) both.value = *a.value * *b.value;
  if (a.ci95 && b.ci95)
    both.ci95 = report::Interval{a.ci95->low * b.ci95->low, a.ci95->high * b.ci95->high};
  return both;
}

}  // namespace

std::string setting_of(const report::TuneChange& change) { return change.key + "=" + change.value; }

TuneRecord::TuneRecord(const TuneOptions& options, const report::TuneBaseline& baseline) {
  report_.budget_s = options.budget_s;
  report_.repeats = options.repeats;
  report_.tolerance = options.tolerance;
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
  for (const report::UntriedSetting& one : found.untried) leave_out(one);
  for (const std::string& line : found.advice) {
    if (std::ranges::find(report_.advice, line) == report_.advice.end())
      report_.advice.push_back(line);
  }
}

void TuneRecord::leave_out(const report::UntriedSetting& one) {
  const auto same = std::ranges::find_if(report_.untried, [&](const report::UntriedSetting& each) {
    return each.key == one.key && each.value == one.value;
  });
  if (same == report_.untried.end()) {
    report_.untried.push_back(one);
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
  const TuneTrial one{candidate.change, candidate.reason, ruling.ruling,
                      runs.gain(),      ruling.losses,    ruling.why};
  const auto same = std::ranges::find_if(report_.tried, [&](const TuneTrial& each) {
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
  for (TuneTrial& one : report_.tried) {
    if (one.change.key != weakest->change.key || one.ruling != TuneDecision::accepted) continue;
    one.ruling = TuneDecision::dropped;
    one.why = why;
  }
  const report::TuneChange dropped = weakest->change;
  report_.patch.erase(weakest);
  if (report_.patch.empty()) report_.after = report_.before;
  return dropped;
}

void TuneRecord::end(TuneStopReason how, std::string why) {
  report_.end = how;
  report_.ended = std::move(why);
  is_over_ = true;
}

void TuneRecord::end_without_candidates() {
  if (!report_.patch.empty()) return end(TuneStopReason::nothing_left, "nothing is left to try");
  if (most_taken_ > 0)
    return end(TuneStopReason::machine_busy,
               fmt::format("undecided, because other processes took up to {:.0f} % of the "
                           "cores: stop them and run tune again",
                           100 * most_taken_));
  const bool has_other_remedy = is_slow_rank(report_.before) ||
                                report_.before.name == "checkpoint_bound" ||
                                report_.before.name == "evaluation_bound";
  if (has_other_remedy)
    return end(TuneStopReason::nothing_left,
               fmt::format("the bottleneck is {}, and the settings that tune is allowed to "
                           "change do not remove it",
                           report_.before.name));
  if (const std::string advice = untested_advice(); !advice.empty())
    return end(TuneStopReason::nothing_left,
               fmt::format("no tested change makes the run faster; the advice was not tested: {}",
                           advice));
  const std::string tries =
      report_.tried.empty()
          ? fmt::format("the bottleneck is {}, and tune found no setting to try",
                        report_.before.name)
          : fmt::format("no tested change makes the run faster ({} tested)", report_.tried.size());
  end(TuneStopReason::nothing_to_fix, "nothing to fix: " + tries);
}

void TuneRecord::end_undecided(report::TuneUndecided undecided) {
  const std::string time = report::more_time_text(undecided.more_s);
  std::string why;
  if (undecided.changes.empty()) {
    why = fmt::format("the rest of the budget is too short: {} would be enough to try {}", time,
                      fmt::join(undecided.untested, ", "));
  } else {
    why = fmt::format(
        "{}: {} would be enough to decide on {}",
        undecided.is_noise ? "the times are too noisy" : "the rest of the budget is too short",
        time, fmt::join(undecided.changes, ", "));
    if (!undecided.untested.empty())
      why += fmt::format("; not tried: {}", fmt::join(undecided.untested, ", "));
  }
  report_.undecided = std::move(undecided);
  end(TuneStopReason::budget, std::move(why));
}

report::TuneReport TuneRecord::finished(double used_s, std::optional<int> stop_code) {
  std::erase_if(report_.untried, [&](const report::UntriedSetting& one) {
    return one.value.empty() && std::ranges::any_of(report_.tried, [&](const TuneTrial& tried) {
             return tried.change.key == one.key;
           });
  });
  report_.used_s = used_s;
  const bool looked_faster = std::ranges::any_of(report_.tried, [](const TuneTrial& each) {
    return each.ruling == TuneDecision::unclear || each.ruling == TuneDecision::dropped;
  });
  const bool is_undecided =
      report_.end == TuneStopReason::budget || report_.end == TuneStopReason::machine_busy;
  if (stop_code) {
    report_.exit_code = *stop_code;
  } else if (report_.patch.empty() && (looked_faster || is_undecided)) {
    report_.exit_code = static_cast<int>(ErrorKind::inconclusive);
  }
  return std::move(report_);
}

std::string TuneRecord::untested_advice() const {
  const std::string& setting = report_.after.setting;
  const bool was_tried = std::ranges::any_of(
      report_.tried, [&](const TuneTrial& each) { return setting_of(each.change) == setting; });
  if (setting.empty() || was_tried) return {};
  const std::string key = setting.substr(0, setting.find('='));
  const auto reason = std::ranges::find(report_.untried, key, &report::UntriedSetting::key);
  const std::string why =
      reason == report_.untried.end() ? "tune does not change this key" : reason->why;
  return fmt::format("{} ({})", setting, why);
}

}  // namespace trainctl::study
