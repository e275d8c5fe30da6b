#include "study/bench.hpp"

#include "base/strings.hpp"
#include "launch/verdict.hpp"

#include <fmt/format.h>

namespace trainctl::study {
namespace {

bool was_stopped(const report::BenchRow& row) {
  return row.failure && launch::is_stop_code(row.failure->exit_code);
}

}  // namespace

std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, int repeats,
                                         const RunTrial& run_trial) {
  std::vector<report::BenchRow> rows;
  for (const Setting& setting : settings)
    rows.push_back({setting.technique, setting.values, {}, {}});
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      if (rows[i].failure) continue;
      TrialResult result = run_trial(i, repeat);
      if (auto* trial = std::get_if<report::Trial>(&result)) {
        rows[i].trials.push_back(std::move(*trial));
        continue;
      }
      rows[i].failure = std::get<report::TrialFailure>(std::move(result));
      rows[i].failure->message = fmt::format("{} (run {} of {}): {}", settings[i].technique,
                                             repeat + 1, repeats, rows[i].failure->message);
      if (was_stopped(rows[i])) return rows;
    }
  }
  return rows;
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
