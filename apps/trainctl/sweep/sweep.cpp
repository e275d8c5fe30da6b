#include "study/sweep/sweep.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "report/text/table.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"
#include "study/sweep/jobs.hpp"
#include "sweep/ledger_setup.hpp"
#include "sweep/output.hpp"
#include "sweep/plan.hpp"
#include "sweep/run_starter.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

/// The flags of `trainctl sweep` beside its config arguments, and its footer.
void add_sweep_flags(CLI::App& verb, SweepFlags& flags);

void add_ways(CLI::App& verb, SweepFlags& flags) {
  verb.add_option("--list", flags.list, "YAML file with a list of maps, one a run")
      ->type_name("FILE");
  verb.add_option("--samples", flags.samples, "draw so many settings at random")
      ->type_name("N")
      ->check(whole_number(1, 10'000));
  verb.add_option("--lhs", flags.lhs, "draw so many settings as a Latin hypercube")
      ->type_name("N")
      ->check(whole_number(1, 10'000));
  verb.add_option("--sample-seed", flags.sample_seed, "of what is drawn")
      ->type_name("N")
      ->check(whole_number(0, INT64_MAX));
  verb.add_option("--seeds", flags.seeds, "run each setting with these seeds, compared in pairs")
      ->type_name("LIST");
  verb.add_flag("--asha", flags.asha,
                "stop runs early that are worse than others (asynchronous successive halving)");
  verb.add_option("--eta", flags.eta, "with --asha: of so many settings one goes on")
      ->type_name("N")
      ->check(whole_number(2, 1000));
  verb.add_option("--min-epochs", flags.min_epochs, "with --asha: that each setting is given")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000'000));
}

void add_course(CLI::App& verb, SweepFlags& flags) {
  verb.add_option("--jobs", flags.jobs, "runs side by side, which share cores and GPUs")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  verb.add_option("--retries", flags.retries,
                  "try a run again that lacked memory, disk or a device, so often")
      ->type_name("N")
      ->check(whole_number(0, 1000));
  CLI::Option* fast = verb.add_flag("--fail-fast", flags.fail_fast, "a run that fails ends all");
  verb.add_flag("--keep-going", flags.keep_going, "it does not: the default")->excludes(fast);
  verb.add_flag("--resume", flags.resume,
                "resume the sweep of --out, else the newest of that name; more settings are added");
  verb.add_flag("--retry-failed", flags.retry_failed, "run again what has failed");
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("'{}' is not one of {}", printable(text), join(names, ", "));
  };
}

void add_sweep_flags(CLI::App& verb, SweepFlags& flags) {
  add_ways(verb, flags);
  verb.add_option("--monitor", flags.monitor,
                  "what settings are ranked by, such as val/accuracy; the experiment's own")
      ->type_name("METRIC");
  verb.add_option("--mode", flags.mode, "whether the lowest or the highest is best: min, max")
      ->type_name("HOW")
      ->check(one_of({"min", "max"}));
  verb.add_option("--against", flags.against, "the row that all are compared with: best, first")
      ->type_name("WHICH")
      ->check(one_of({"best", "first"}));
  add_course(verb, flags);
  verb.add_option("--out", flags.out, "folder of the sweep (default: runs/sweep/NAME/TIME)")
      ->type_name("DIR");
  verb.add_option("--csv", flags.csv, "write a line a run to this file")->type_name("FILE");
  verb.footer(
      "Keys that vary:  optimizer.lr=0.1,0.01  model.hidden=[32],[64]  "
      "loader.batch_size=range(16,65,16)\n"
      "To draw from:    optimizer.lr=log(1e-4,1e-1)  model.dropout=uniform(0,0.5)  "
      "optimizer.type=choice(sgd,adam)\n"
      "Exit codes: 0 all runs are done; 5 some have failed; 75 or 130 stopped, go on with "
      "--resume.");
}

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
