#include "study/sweep/sweep.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "cli/standard_streams.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "report/text/table.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"
#include "study/sweep/job_process.hpp"
#include "sweep/flags.hpp"
#include "sweep/ledger_setup.hpp"
#include "sweep/output.hpp"
#include "sweep/plan.hpp"
#include "sweep/run_starter.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

constexpr const char* kLedger = "sweep.sqlite";

/// Two sweeps on one ledger would start its runs twice.
study::FolderLock lock_of(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 4096;
  make_folder(folder);
  try {
    return study::FolderLock(folder);
  } catch (const Error& error) {
    const fs::path file = folder / study::FolderLock::kFileName;
    std::error_code ignored;
    if (error.kind() != ErrorKind::resource || !fs::is_regular_file(file, ignored)) throw;
    const auto holder = study::read_lock_line(read_file(file, kMostBytes, ReadFailure::resource));
    if (!holder) throw;
    throw Error(ErrorKind::resource,
                fmt::format("a sweep is at work in {}: pid {} on {} since {}; wait for it, or "
                            "choose another --out; if that process is gone, remove {}",
                            printable(folder.string()), holder->pid, printable(holder->host),
                            printable(holder->since), printable(file.string())));
  }
}

std::string resume_command(const Context& context, const SweepFlags& flags,
                           const fs::path& folder) {
  std::vector<std::string> words;
  for (const std::string& word : context.argv) {  // --out may name a link that moves
    const bool is_value = !words.empty() && words.back() == "--out";
    const bool is_both = word == "--out=" + flags.out;
    words.push_back(is_value ? folder.string() : is_both ? "--out=" + folder.string() : word);
  }
  if (flags.out.empty()) words.insert(words.end(), {"--out", folder.string()});
  if (std::ranges::find(words, "--resume") == words.end()) words.emplace_back("--resume");
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

/// --out; else that of the newest sweep of this name where it is to be resumed, or a new one.
study::RunFolder folder_for(const SweepFlags& flags, const PlannedSweep& sweep) {
  const study::FolderRequest request{.name = sweep.name, .root = fs::path("runs") / "sweep"};
  std::optional<fs::path> folder;
  if (!flags.out.empty()) {
    folder = study::real_folder(flags.out);  // `latest` may lead to another sweep later
  } else if (flags.resume || flags.retry_failed) {
    folder = study::newest_folder(request);
  }
  if (!folder) return study::make_run_folder(request);
  return {*folder, lock_of(*folder)};
}

study::SweepPlan plan_of(const SweepFlags& flags, const PlannedSweep& sweep,
                         const fs::path& folder) {
  return {
      .folder = folder,
      .ranking = sweep.ranking,
      .rungs = sweep.rungs,
      .eta = flags.eta,
      .jobs = flags.jobs,
      .retries = flags.retries,
      .on_failure = flags.fail_fast ? study::OnFailure::fail_fast : study::OnFailure::keep_going};
}

/// What the runs of a sweep are made by.
struct Making {
  study::Ledger& ledger;
  const PlannedSweep& sweep;
  const SweepFlags& flags;
  const fs::path& folder;
  launch::SignalGuard& guard;
  SweepPage& page;
};

/// Writes the tables while runs end: of many that end in a second once, as each holds all runs. The
/// ledger has it all: what is not written now is written after a later run, or at the end.
class Tables {
 public:
  Tables(const Making& making, const Clock& clock) : making_(making), clock_(clock) {}

  void write() {
    constexpr double kEvery_s = 1;
    if (written_at_ && clock_.now() - *written_at_ < kEvery_s) return;
    const report::Sweep now =
        told_sweep(making_.ledger, making_.sweep, making_.flags, making_.folder);
    try {
      write_sweep_files(now);
    } catch (const Error& error) {
      log::get().warn("the tables of the sweep were not written: {}", error.what());
    }
    making_.page.write_sometimes(now);
    written_at_ = clock_.now();
  }

 private:
  const Making& making_;
  const Clock& clock_;
  std::optional<double> written_at_;
};

void say_repeated(const PlannedSweep& sweep, const Context& context) {
  if (sweep.repeated == 0 || progress_for(context) == report::ProgressMode::none) return;
  writer_for(stderr)(fmt::format(
      "{} of the settings resolve to one that came before: each is run once\n", sweep.repeated));
}

study::SweepEnd make_runs(const Making& making, const Context& context) {
  const fs::path& folder = making.folder;
  RunStarter starter(making.flags, making.sweep, folder, making.guard);
  make_folder(folder / "configs");
  make_folder(folder / "logs");
  make_folder(folder / "runs");
  say_repeated(making.sweep, context);
  Tables tables(making, steady_clock());
  const auto told = [&](std::span<const study::LedgerRun> runs) {
    for (const study::LedgerRun& run : runs) {
      starter.release(run.number);
      say_run(run, making.sweep, context);
    }
    tables.write();
  };
  const study::SweepHooks hooks{
      .start = [&](const study::SweepJob& job) { return starter.start(job); },
      .wait = [&](double seconds) { return study::wait_for_signals(making.guard, seconds); },
      .told = told,
      .clock = steady_clock()};
  return study::run_sweep(making.ledger, plan_of(making.flags, making.sweep, folder), hooks);
}

void say_end(const study::SweepEnd& end, const report::Sweep& sweep, const std::string& command,
             const Context& context) {
  if (context.quiet || context.json || (!end.signal && !end.failed_fast)) return;
  const std::size_t open = runs_with(sweep, report::SweepStatus::pending) +
                           runs_with(sweep, report::SweepStatus::running);
  writer_for(stderr)(fmt::format("{}: {} of {} runs are left; go on with: {}\n",
                                 end.signal ? "stopped" : "a run failed", open, sweep.runs.size(),
                                 printable(command)));
}

/// Each task of a launcher would start the same sweep.
void expect_one_task() {
  const auto task = launch::task_place([](const char* name) { return std::getenv(name); });
  ENSURE(config, !task || task->world_size == 1,
         "{} has started {} tasks of this sweep, and one makes all of its runs: start one task",
         launch::name_of(task->launcher), task->world_size);
}

int sweep(const SweepFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  launch::end_on_stop_signals();  // nothing has begun that could be saved
  expect_one_task();
  const PlannedSweep planned = plan_sweep(flags, context);
  print_warnings(context);
  if (const fs::path csv = fs::path(flags.csv).parent_path(); !csv.empty()) make_folder(csv);
  const study::RunFolder taken = folder_for(flags, planned);
  const fs::path& folder = taken.path;
  study::Ledger ledger(folder / kLedger);
  const Todo todo = prepare(ledger, planned, flags, folder);
  launch::SignalGuard guard;  // a signal after the last run must not cost the table
  study::SweepEnd end;
  SweepPage page(steady_clock());
  if (todo == Todo::runs) end = make_runs({ledger, planned, flags, folder, guard, page}, context);
  const report::Sweep told = told_sweep(ledger, planned, flags, folder);
  const int exit_code = exit_code_of(told, end.signal);
  write_sweep_files(told);
  if (!flags.csv.empty()) write_atomically(flags.csv, report::to_csv(report::sweep_results(told)));
  page.write(told);
  print_sweep(told, exit_code, page, context);
  say_end(end, told, resume_command(context, flags, folder), context);
  return exit_code;
}

}  // namespace

void add_sweep(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<SweepFlags>();
  CLI::App& verb =
      add_verb(program, context,
               {"sweep", "many settings as runs of one ledger, which survives being killed",
                kTrainGroup, WorkingDirectory::existing},
               [flags, &context] { return sweep(*flags, context); });
  add_config_arguments(verb, flags->config, context);
  add_sweep_flags(verb, *flags);
}

}  // namespace trainctl::app
