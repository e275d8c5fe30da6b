#include "sweep/ledger_setup.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/sweep/definition.hpp"
#include "study/sweep/result.hpp"
#include "study/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

/// How the runs of a sweep are ranked, as the ledger keeps it.
Json ranking_of(const PlannedSweep& sweep) {
  return {{"monitor", sweep.ranking.monitor},
          {"mode", sweep.ranking.better == report::Better::lower ? "min" : "max"}};
}

/// The value of each run that has ended is that of the monitor that was asked for, which may be
/// another than before.
void rank_by(study::Ledger& ledger, const PlannedSweep& sweep, const fs::path& folder) {
  if (ledger.ranking() == ranking_of(sweep)) return;
  study::Ledger::Values values;
  for (const study::LedgerRun& run : ledger.all_runs()) {
    if (!run.exit_code) continue;
    const auto end = study::run_end(study::run_folder(folder, run.number), {}, sweep.ranking);
    values.emplace_back(run.number, end ? end->value : study::value_in(run, sweep.ranking));
  }
  ledger.rank(ranking_of(sweep), values);
}

/// Runs that were stopped at other rungs, or judged by another value, cannot be compared with what
/// comes.
void expect_same_halving(const Json& before, const Json& now, const std::string& shown) {
  const Json was = before.value("asha", Json());
  const Json is = now.value("asha", Json());
  ENSURE(config, was == is,
         "{} holds a sweep {}, and this one is {}: its runs were stopped by those rules; repeat "
         "them, or choose another --out ({})",
         shown, was.is_null() ? "without --asha" : "with --asha",
         is.is_null()    ? "without it"
         : was.is_null() ? "with it"
                         : "with other settings of it",
         printable(study::definition_difference({{"asha", was}}, {{"asha", is}})));
}

}  // namespace

Todo prepare(study::Ledger& ledger, const PlannedSweep& sweep, const SweepFlags& flags,
             const std::filesystem::path& folder) {
  const Json before = ledger.definition();
  const std::string shown = printable(folder.string());
  if (!before.is_null()) {
    expect_same_halving(before, sweep.definition, shown);
    const std::string difference = study::definition_difference(before, sweep.definition);
    ENSURE(config, difference.empty() || flags.resume,
           "{} holds another sweep ({}); go on with this one there by --resume, which keeps the "
           "runs that both have, or choose another --out",
           shown, difference);
    const auto runs = ledger.runs();
    const bool is_done = difference.empty() && study::is_finished(runs) && !flags.retry_failed;
    if (is_done) {
      rank_by(ledger, sweep, folder);
      return Todo::nothing;
    }
    const auto done = std::ranges::count_if(runs, [](const study::LedgerRun& run) {
      return run.status == report::SweepStatus::ok || run.status == report::SweepStatus::failed ||
             run.status == report::SweepStatus::pruned;
    });
    ENSURE(config, flags.resume || flags.retry_failed,
           "the sweep in {} is not finished, {} of {} runs are: go on with it by --resume, or "
           "choose another --out",
           shown, done, runs.size());
  }
  ledger.define(sweep.definition, sweep.runs);
  rank_by(ledger, sweep, folder);
  std::vector<std::int64_t> again;
  for (const study::LedgerRun& run : ledger.runs()) {
    const bool failed = run.status == report::SweepStatus::failed && flags.retry_failed;
    if (failed || run.status == report::SweepStatus::pruned) again.push_back(run.number);
  }
  if (!again.empty()) ledger.reopen(again);
  return Todo::runs;
}

}  // namespace trainctl::app
