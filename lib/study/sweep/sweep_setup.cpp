#include "study/sweep/sweep_setup.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/sweep/definition.hpp"
#include "study/sweep/result.hpp"
#include "study/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace trainctl::study {
namespace {

FolderLock lock_of(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 4096;
  make_folder(folder);
  try {
    return FolderLock(folder);
  } catch (const Error& error) {
    const fs::path file = folder / FolderLock::kFileName;
    std::error_code ignored;
    if (error.kind() != ErrorKind::resource || !fs::is_regular_file(file, ignored)) throw;
    const auto holder = read_lock_line(read_file(file, kMostBytes, ReadFailure::resource));
    if (!holder) throw;
    throw Error(ErrorKind::resource,
                fmt::format("a sweep is at work in {}: pid {} on {} since {}; wait for it, or "
                            "choose another --out; if that process is gone, remove {}",
                            printable(folder.string()), holder->pid, printable(holder->host),
                            printable(holder->since), printable(file.string())));
  }
}

/// How the runs of a sweep are ranked, as the ledger keeps it.
Json ranking_of(const PlannedSweep& sweep) {
  return {{"monitor", sweep.ranking.monitor},
          {"mode", sweep.ranking.better == report::Better::lower ? "min" : "max"}};
}

/// The value of each run that has ended is that of the monitor that was asked for, which may be
/// another than before.
void rank_by(Ledger& ledger, const PlannedSweep& sweep, const fs::path& folder) {
  if (ledger.ranking() == ranking_of(sweep)) return;
  Ledger::Values values;
  for (const LedgerRun& run : ledger.all_runs()) {
    if (!run.exit_code) continue;
    const auto end = run_end(run_folder(folder, run.number), {}, sweep.ranking);
    values.emplace_back(run.number, end ? end->value : value_in(run, sweep.ranking));
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
         printable(definition_difference({{"asha", was}}, {{"asha", is}})));
}

}  // namespace

RunFolder sweep_folder(const SweepOptions& options, const std::string& name) {
  const FolderRequest request{.name = name, .root = fs::path("runs") / "sweep"};
  std::optional<fs::path> folder;
  if (!options.out.empty()) {
    folder = real_folder(options.out);  // `latest` may lead to another sweep later
  } else if (options.resume || options.retry_failed) {
    folder = newest_folder(request);
  }
  if (!folder) return make_run_folder(request);
  return {*folder, lock_of(*folder)};
}

Todo prepare(Ledger& ledger, const PlannedSweep& sweep, const SweepOptions& options,
             const std::filesystem::path& folder) {
  const Json before = ledger.definition();
  const std::string shown = printable(folder.string());
  if (!before.is_null()) {
    expect_same_halving(before, sweep.definition, shown);
    const std::string difference = definition_difference(before, sweep.definition);
    ENSURE(config, difference.empty() || options.resume,
           "{} holds another sweep ({}); go on with this one there by --resume, which keeps the "
           "runs that both have, or choose another --out",
           shown, difference);
    const auto runs = ledger.runs();
    const bool is_done = difference.empty() && is_finished(runs) && !options.retry_failed;
    if (is_done) {
      rank_by(ledger, sweep, folder);
      return Todo::nothing;
    }
    const auto done = std::ranges::count_if(runs, [](const LedgerRun& run) {
      return run.status == report::SweepStatus::ok || run.status == report::SweepStatus::failed ||
             run.status == report::SweepStatus::pruned;
    });
    ENSURE(config, options.resume || options.retry_failed,
           "the sweep in {} is not finished, {} of {} runs are: go on with it by --resume, or "
           "choose another --out",
           shown, done, runs.size());
  }
  ledger.define(sweep.definition, sweep.runs);
  rank_by(ledger, sweep, folder);
  std::vector<std::int64_t> again;
  for (const LedgerRun& run : ledger.runs()) {
    const bool failed = run.status == report::SweepStatus::failed && options.retry_failed;
    if (failed || run.status == report::SweepStatus::pruned) again.push_back(run.number);
  }
  if (!again.empty()) ledger.reopen(again);
  return Todo::runs;
}

}  // namespace trainctl::study
