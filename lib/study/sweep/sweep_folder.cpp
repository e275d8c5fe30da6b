#include "study/sweep/sweep_folder.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"
#include "report/html/sweep_page.hpp"
#include "report/text/format.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/sweep/sweep.hpp"

#include <csignal>

namespace trainctl::study {
namespace {

FolderLock lock_of(const fs::path& folder) {
  make_folder(folder);
  try {
    return FolderLock(folder);
  } catch (const Error& error) {
    const fs::path file = folder / FolderLock::kFileName;
    const auto holder = error.kind() == ErrorKind::resource ? lock_holder(folder) : std::nullopt;
    if (!holder) throw;
    THROW(resource,
          "the sweep folder {} is in use by pid {} on {} since {}\nhint: wait for that "
          "process or choose another --out; if it no longer exists, remove {}",
          printable(folder.string()), holder->pid, printable(holder->host),
          printable(holder->since), printable(file.string()));
  }
}

Json ranking_of(const PlannedSweep& sweep) {
  return {{"monitor", sweep.ranking.monitor},
          {"mode", sweep.ranking.better == report::Better::lower ? "min" : "max"}};
}

/// Recomputes the value of each finished run for the current monitor, which may have changed.
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

/// Throws if earlier runs were stopped at other rungs or ranked by another value, because they
/// could not be compared with later runs.
void expect_same_halving(const Json& before, const Json& now, const std::string& shown) {
  const Json was = before.value("asha", Json());
  const Json is = now.value("asha", Json());
  ENSURE(config, was == is,
         "{} contains a sweep {}, but {} ({}), so the runs cannot be compared"
         "\nhint: use the same --asha options, or choose another --out",
         shown, was.is_null() ? "without --asha" : "with --asha",
         is.is_null()    ? "--asha is not given now"
         : was.is_null() ? "--asha is given now"
                         : "other --asha options are given now",
         printable(definition_difference({{"asha", was}}, {{"asha", is}})));
}

using report::SweepStatus;

report::SweepRun run_record(const LedgerRun& run, std::size_t group,
                            const std::filesystem::path& folder) {
  report::SweepRun record;
  record.id = run_id(run.number);
  record.group = group;
  record.seed = run.plan.seed;
  record.fold = run.plan.fold;
  for (const auto& [key, value] : run.plan.overrides) {
    const std::string bare = key.substr(std::min(key.find_first_not_of('+'), key.size()));
    if (bare != "seed")
      record.overrides.emplace_back(bare, value);  // the runs of one setting share them
  }
  record.status = run.status;
  record.exit_code = run.exit_code;
  record.message = run.message;
  record.metrics = run.metrics;
  record.value = run.value;
  record.run_dir = run_folder(folder, run.number).string();
  record.epochs = run.epochs;
  record.wall_s = run.wall_s;
  if (run.status == SweepStatus::pruned) record.pruned_at = run.epochs;
  return record;
}

std::string setting_text(const report::SweepRun& run) {
  std::string text;
  for (const auto& [key, value] : run.overrides)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
  return text;
}

std::string state_text(const report::SweepRun& run, const std::string& monitor) {
  const std::string value =
      run.value ? fmt::format("{} {}", monitor, report::metric_text(*run.value)) : "-";
  switch (run.status) {
    case SweepStatus::ok: return value + "  " + counted(run.epochs, "epoch");
    case SweepStatus::failed:
      return fmt::format("failed (exit {}): {}", run.exit_code.value_or(1), one_line(run.message));
    case SweepStatus::pruned: return fmt::format("{}  pruned at epoch {}", value, run.epochs);
    case SweepStatus::pending:
      return run.exit_code == 0 ? fmt::format("{}  {} so far", value, counted(run.epochs, "epoch"))
                                : std::string("waiting to resume");
    case SweepStatus::running: break;
  }
  return enum_name(run.status);
}

}  // namespace

RunFolder sweep_folder(const SweepOptions& options, const std::string& name) {
  const FolderRequest request{.name = name, .root = fs::path("runs") / "sweep"};
  std::optional<fs::path> folder;
  if (!options.out.empty()) {
    folder = real_folder(options.out);  // `latest` may point to another sweep later
  } else if (options.resume || options.retry_failed) {
    folder = newest_folder(request);
  }
  if (!folder) return make_run_folder(request);
  return {*folder, lock_of(*folder)};
}

PendingWork prepare(Ledger& ledger, const PlannedSweep& sweep, const SweepOptions& options,
                    const std::filesystem::path& folder) {
  const Json before = ledger.definition();
  const std::string shown = printable(folder.string());
  if (!before.is_null()) {
    expect_same_halving(before, sweep.definition, shown);
    const std::string difference = definition_difference(before, sweep.definition);
    ENSURE(config, difference.empty() || options.resume,
           "{} contains a different sweep ({})\nhint: add --resume to continue it with these "
           "settings and keep the runs that both have, or choose another --out",
           shown, difference);
    const auto runs = ledger.runs();
    const bool is_done = difference.empty() && is_finished(runs) && !options.retry_failed;
    if (is_done) {
      rank_by(ledger, sweep, folder);
      return PendingWork::nothing;
    }
    const auto done = std::ranges::count_if(runs, [](const LedgerRun& run) {
      return run.status == report::SweepStatus::ok || run.status == report::SweepStatus::failed ||
             run.status == report::SweepStatus::pruned;
    });
    ENSURE(config, options.resume || options.retry_failed,
           "the sweep in {} is not finished: {} of {} runs are done\nhint: resume it with "
           "--resume, or choose another --out",
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
  return PendingWork::runs;
}

report::Sweep sweep_record(const Ledger& ledger, const PlannedSweep& sweep,
                           const SweepOptions& options, const std::filesystem::path& config_file,
                           const std::filesystem::path& folder) {
  report::Sweep record;
  record.config = config_file.string();
  record.folder = folder.string();
  record.kind = sweep.kind;
  record.prunes = options.asha;
  record.monitor = sweep.ranking.monitor;
  record.better = sweep.ranking.better;
  record.against = options.against == "first" ? report::Against::first : report::Against::best;
  std::map<std::string, std::size_t> groups;
  for (const LedgerRun& run : ledger.runs()) {
    const std::size_t group = groups.try_emplace(run.plan.config, groups.size()).first->second;
    record.runs.push_back(run_record(run, group, folder));
  }
  return record;
}

int exit_code_of(const report::Sweep& sweep, const std::optional<int>& signal) {
  if (signal)
    return static_cast<int>(*signal == SIGINT ? ErrorKind::interrupted : ErrorKind::stopped);
  const bool failed = runs_with(sweep, SweepStatus::failed) > 0;
  return failed ? static_cast<int>(ErrorKind::sweep_failed) : 0;
}

void write_sweep_files(const report::Sweep& sweep) {
  const std::filesystem::path folder = sweep.folder;
  const Json document = report::sweep_document(sweep, exit_code_of(sweep, {}));
  write_atomically(folder / "sweep.json", to_pretty(document) + "\n");
  write_atomically(folder / "results.csv", report::to_csv(report::sweep_results(sweep)));
}

void SweepPage::write_if_due(const report::Sweep& sweep) {
  if (!has_begun_ || clock_.now() >= not_before_) write(sweep);
}

void SweepPage::write(const report::Sweep& sweep) {
  constexpr double kPauseS = 30;
  constexpr double kShare = 20;  // writing takes at most 1/kShare of the time
  const double began = clock_.now();
  const std::filesystem::path folder = sweep.folder;
  file_.clear();
  try {
    const Json document = report::sweep_document(sweep, exit_code_of(sweep, {}));
    const auto runs = report::swept_runs(document, folder);
    write_atomically(folder / "report.html",
                     report::sweep_page(document, runs, folder.filename().string()));
    file_ = folder / "report.html";
  } catch (const Error& error) {
    log::get().warn("cannot write the sweep's report.html: {}", one_line(error.what()));
  }
  const double ended = clock_.now();
  not_before_ = ended + std::max(kPauseS, kShare * (ended - began));
  has_begun_ = true;
}

std::string progress_line(const LedgerRun& run, const PlannedSweep& sweep) {
  const report::SweepRun record = run_record(run, 0, {});
  const auto planned = std::ranges::find_if(sweep.runs, [&](const PlannedRun& one) {
    return one.config == run.plan.config && one.seed == run.plan.seed && one.fold == run.plan.fold;
  });
  // The numbers continue when a sweep is extended, so they may exceed the number of its runs.
  const auto position = planned - sweep.runs.begin() + 1;
  return fmt::format("run {} ({} of {})  {}  seed {}{}  {}\n", record.id, position,
                     sweep.runs.size(), printable(setting_text(record)), record.seed,
                     record.fold ? fmt::format("  fold {}", *record.fold) : "",
                     printable(state_text(record, sweep.ranking.monitor)));
}

}  // namespace trainctl::study
