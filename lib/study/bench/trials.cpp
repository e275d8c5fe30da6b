#include "study/bench/trials.hpp"

#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace trainctl::study {
namespace {

bool was_stopped(const report::BenchRow& row) {
  return row.failure && launch::is_stop_code(row.failure->exit_code);
}

/// Puts the run into its row; false where it was stopped, or ended with the budget.
bool keep(report::BenchRow& row, TrialResult result, const std::string& which) {
  if (auto* trial = std::get_if<report::Trial>(&result)) {
    row.trials.push_back(std::move(*trial));
    return true;
  }
  auto failure = std::get<report::TrialFailure>(std::move(result));
  if (failure.overdue) return false;
  row.failure = std::move(failure);
  row.failure->message = fmt::format("{} ({}): {}", row.technique, which, row.failure->message);
  return !was_stopped(row);
}

/// Watches the end of a bench.
class Budget {
 public:
  explicit Budget(const Rounds& rounds) : rounds_(rounds) {}

  bool lets_round_begin(int repeat) {
    if (!rounds_.ends_at) return true;
    const double now = rounds_.clock->now();
    if (repeat > 0) longest_s_ = std::max(longest_s_, now - began_);
    began_ = now;
    return repeat == 0 || now + longest_s_ <= *rounds_.ends_at;
  }

  /// Of the first round; later ones are foreseen.
  [[nodiscard]] bool lets_run_begin(int repeat) const {
    return repeat > 0 || !rounds_.ends_at || rounds_.clock->now() <= *rounds_.ends_at;
  }

 private:
  const Rounds& rounds_;
  double began_ = 0;
  double longest_s_ = 0;
};

}  // namespace

std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, const Rounds& rounds,
                                         const RunTrial& run_trial) {
  std::vector<report::BenchRow> rows;
  for (const Setting& setting : settings)
    rows.push_back({setting.technique, setting.values, {}, {}});
  Budget budget(rounds);
  for (int repeat = 0; repeat < rounds.repeats && budget.lets_round_begin(repeat); ++repeat) {
    const std::string which = fmt::format("run {} of {}", repeat + 1, rounds.repeats);
    for (std::size_t turn = 0; turn < settings.size(); ++turn) {
      const std::size_t i = repeat % 2 == 0 ? turn : settings.size() - 1 - turn;
      if (rows[i].failure) continue;
      if (!budget.lets_run_begin(repeat) || !keep(rows[i], run_trial(i, repeat), which))
        return rows;
    }
  }
  return rows;
}

bool is_whole_round(std::span<const report::BenchRow> rows) {
  return std::ranges::all_of(rows, [](const report::BenchRow& row) {
    return !row.trials.empty() || row.failure.has_value();
  });
}

std::string budget_note(std::span<const report::BenchRow> rows, int repeats,
                        const std::string& budget) {
  auto least = static_cast<std::size_t>(repeats);
  for (const report::BenchRow& row : rows) {
    if (!row.failure) least = std::min(least, row.trials.size());
  }
  if (budget.empty() || least == static_cast<std::size_t>(repeats)) return "";
  return fmt::format("The budget of {} left time for {} of {} repeats.\n", printable(budget), least,
                     repeats);
}

int exit_code_of(std::span<const report::BenchRow> rows) {
  int code = 0;
  for (const report::BenchRow& row : rows) {
    if (was_stopped(row)) return row.failure->exit_code;
    if (row.failure && code == 0) code = row.failure->exit_code;
  }
  return code;
}

}  // namespace trainctl::study
