#include "study/bench/bench_gate.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "study/bench/baseline.hpp"
#include "study/run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

void check_options(const BenchOptions& options, const BenchPlan& plan) {
  ENSURE(config, options.baseline.empty() || !options.fail_on.empty(),
         "--baseline is compared with by conditions: add them, as in --fail-on "
         "'samples_per_s<-2.5%'");
  ENSURE(config, !options.force_baseline || !options.baseline.empty(),
         "--force-baseline belongs to --baseline");
  ENSURE(config, options.fail_on.empty() || !options.baseline.empty() || plan.settings.size() > 1,
         "--fail-on compares with the first row, and there is no other: add settings, as in "
         "--workers 0,4, or --baseline FILE");
}

const report::BaselineRow* row_in(const report::Baseline& baseline, bool forced,
                                  const std::vector<std::pair<std::string, std::string>>& values) {
  return forced ? report::row_for(baseline, values) : comparable_row(baseline, values);
}

/// At least one setting has to be in the file, before an hour of runs rather than after it.
void ensure_rows(const report::Baseline& baseline, const BenchOptions& options,
                 const BenchPlan& plan) {
  const bool any = std::ranges::any_of(plan.settings, [&](const Setting& setting) {
    return row_in(baseline, options.force_baseline, setting.values) != nullptr;
  });
  std::vector<std::string> techniques;
  for (const report::BaselineRow& row : baseline.rows) techniques.push_back(row.technique);
  ENSURE(config, any, "the baseline {} has none of these settings; it has {}",
         printable(baseline.path), shortened(techniques));
}

/// Throws Error(config) that suggests the experiment with runs or the file with the nearest name.
void check_exists(const std::string& baseline) {
  std::error_code ignored;
  if (fs::exists(baseline, ignored)) return;
  std::vector<std::string> names;
  for (fs::directory_iterator at("runs", ignored), end; !ignored && at != end;
       at.increment(ignored))
    names.push_back(at->path().filename().string());
  const auto near = nearest(fs::path(baseline).filename().string(), names);
  const std::string hint =
      near ? fmt::format("did you mean '{}'?", *near) : nearest_file_hint(baseline);
  throw Error(ErrorKind::config,
              fmt::format("--baseline: there is no file, run folder or experiment with runs below "
                          "runs/ called '{}'{}",
                          printable(baseline), hint.empty() ? "" : "\nhint: " + printable(hint)));
}

report::Baseline checked_baseline(const BenchOptions& options, const BenchPlan& plan,
                                  const Json& machine, const PrintLine& print) {
  check_exists(options.baseline);
  report::Baseline baseline = load_baseline(options.baseline);
  const std::vector<std::string> differences =
      baseline_differences(baseline, plan.requests.front().loaded, machine, varied_keys(plan));
  ENSURE(config, differences.empty() || options.force_baseline,
         "the baseline {} is not comparable: {}; save one here (--save), or add --force-baseline",
         printable(baseline.path), shortened(differences, 8));
  ensure_rows(baseline, options, plan);
  if (!differences.empty()) print(fmt::format("baseline  forced: {}", shortened(differences, 8)));
  return baseline;
}

}  // namespace

BenchGate::BenchGate(const BenchOptions& options, const BenchPlan& plan, const Json& machine,
                     const PrintLine& print) {
  check_options(options, plan);
  forced_ = options.force_baseline;
  if (options.fail_on.empty()) return;
  const std::vector<std::string> metrics = metric_columns(plan.requests.front().loaded.experiment);
  conditions_ = report::parse_conditions(options.fail_on, metrics);
  if (!options.baseline.empty()) baseline_ = checked_baseline(options, plan, machine, print);
}

std::vector<report::Contest> BenchGate::contests(std::span<const report::BenchRow> rows) const {
  std::vector<report::Contest> contests;
  for (const report::BenchRow& row : rows) {
    if (!baseline_ && &row == &rows.front()) continue;
    report::Contest contest{.technique = row.technique,
                            .against = "'" + rows.front().technique + "'",
                            .base = {},
                            .now = report::samples_of(row.trials),
                            .pairing = pairing()};
    if (!baseline_) {
      contest.base = report::samples_of(rows.front().trials);
    } else if (const auto* found = row_in(*baseline_, forced_, row.settings)) {
      contest.against = fmt::format("'{}' of {}", found->technique, baseline_->path);
      contest.base = found->samples;
    } else {
      continue;  // see not_compared()
    }
    contests.push_back(std::move(contest));
  }
  return contests;
}

std::vector<std::string> BenchGate::not_compared(std::span<const report::BenchRow> rows) const {
  std::vector<std::string> techniques;
  for (const report::BenchRow& row : rows) {
    if (baseline_ && row_in(*baseline_, forced_, row.settings) == nullptr)
      techniques.push_back(row.technique);
  }
  return techniques;
}

std::vector<report::Finding> BenchGate::check(std::span<const report::BenchRow> rows) const {
  if (conditions_.empty() || rows.empty()) return {};
  const std::vector<report::Contest> all = contests(rows);
  return report::judge(conditions_, all);
}

}  // namespace trainctl::study
