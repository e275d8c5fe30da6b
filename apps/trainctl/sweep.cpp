#include "study/sweep.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/machine.hpp"
#include "base/numa.hpp"
#include "base/strings.hpp"
#include "config_arguments.hpp"
#include "context.hpp"
#include "engine_library.hpp"
#include "launch/gpu_probe.hpp"
#include "launch/launcher_env.hpp"
#include "launch/signals.hpp"
#include "log/log.hpp"
#include "report/table.hpp"
#include "study/folder_lock.hpp"
#include "study/run_folder.hpp"
#include "study/sweep_process.hpp"
#include "study/sweep_slots.hpp"
#include "sweep_output.hpp"
#include "sweep_plan.hpp"
#include "sweep_prepare.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

constexpr const char* kLedger = "sweep.sqlite";

fs::path folder_of(const SweepFlags& flags, const PlannedSweep& sweep) {
  const fs::path folder = flags.out.empty()
                              ? fs::path("runs") / "sweep" / study::folder_name(sweep.name)
                              : fs::path(flags.out);
  return fs::absolute(folder).lexically_normal();
}

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

/// As CUDA_VISIBLE_DEVICES names them; none where no run could use one.
std::vector<std::string> gpus_for(const PlannedSweep& sweep) {
  const bool wants_any =
      std::ranges::any_of(sweep.devices, [](const auto& of_hash) { return of_hash.second != 0; });
  if (!wants_any || read_machine().gpus.empty()) return {};
  const int count = launch::probe_gpus().count;
  const char* listed = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> names =
      listed == nullptr || *listed == '\0' ? std::vector<std::string>() : split(listed, ',');
  const bool is_complete = std::ssize(names) >= count;
  if (is_complete) {
    names.resize(static_cast<std::size_t>(count));
    return names;
  }
  names.clear();
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Starts `trainctl run`, with its share of the machine.
class Starter {
 public:
  Starter(const SweepFlags& flags, const PlannedSweep& sweep, const fs::path& folder,
          const launch::SignalGuard& guard)
      : Starter(flags, sweep, folder, guard,
                flags.jobs > 1 ? gpus_for(sweep) : std::vector<std::string>()) {}

  std::unique_ptr<study::JobProcess> start(const study::SweepJob& job);
  /// What a run had is free for the next.
  void release(std::int64_t number);

 private:
  Starter(const SweepFlags& flags, const PlannedSweep& sweep, const fs::path& folder,
          const launch::SignalGuard& guard, const std::vector<std::string>& gpus)
      : flags_(flags),
        sweep_(sweep),
        folder_(folder),
        guard_(guard),
        gpus_(static_cast<int>(gpus.size())),
        slots_(flags.jobs, by_physical_core(allowed_cores()), cpu_quota(), gpus) {}

  [[nodiscard]] std::vector<std::string> command(const study::SweepJob& job) const;
  [[nodiscard]] fs::path config_of(const std::string& hash) const;
  [[nodiscard]] const study::PlannedRun& run_of(const study::SweepJob& job) const;
  [[nodiscard]] int gpus_of(const study::SweepJob& job) const;

  const SweepFlags& flags_;
  const PlannedSweep& sweep_;
  fs::path folder_;
  const launch::SignalGuard& guard_;
  int gpus_;
  study::Slots slots_;
  std::map<std::int64_t, study::Share> shares_;
};

std::vector<std::string> Starter::command(const study::SweepJob& job) const {
  std::vector<std::string> words{executable_path().string(), "run",
                                 config_of(run_of(job).config).string(),
                                 fmt::format("seed={}", job.seed)};
  for (const char* word : {"--resume", "auto", "--quiet", "--progress", "none", "--color", "never"})
    words.emplace_back(word);
  words.insert(words.end(), {"--run-dir", job.run_dir.string()});
  if (job.until_epoch)
    words.insert(words.end(), {"--until-epoch", std::to_string(*job.until_epoch)});
  return words;
}

/// The experiment as it was when the sweep was called: a file that is changed meanwhile changes no
/// run.
fs::path Starter::config_of(const std::string& hash) const {
  const fs::path file = folder_ / "configs" / (hash + ".yaml");
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) write_atomically(file, sweep_.configs.at(hash));
  return file;
}

const study::PlannedRun& Starter::run_of(const study::SweepJob& job) const {
  const auto run = std::ranges::find_if(sweep_.runs, [&](const study::PlannedRun& each) {
    return each.seed == job.seed && each.overrides == job.overrides;
  });
  ASSERT(run != sweep_.runs.end());
  return *run;
}

/// With `auto` an equal part of them.
int Starter::gpus_of(const study::SweepJob& job) const {
  if (gpus_ == 0) return 0;
  const int wanted = sweep_.devices.at(run_of(job).config);
  return wanted >= 0 ? wanted : std::max(1, gpus_ / flags_.jobs);
}

std::unique_ptr<study::JobProcess> Starter::start(const study::SweepJob& job) {
  const study::Share share = slots_.take(gpus_of(job));
  shares_[job.number] = share;
  const fs::path log = folder_ / "logs" / (study::run_id(job.number) + ".log");
  try {
    return std::make_unique<study::ChildProcess>(study::JobCommand{command(job), log, share},
                                                 guard_);
  } catch (const Error&) {
    release(job.number);
    throw;
  }
}

void Starter::release(std::int64_t number) {
  const auto share = shares_.find(number);
  if (share == shares_.end()) return;
  slots_.give_back(share->second);
  shares_.erase(share);
}

std::string resume_command(const Context& context) {
  std::vector<std::string> words = context.argv;
  if (std::ranges::find(words, "--resume") == words.end()) words.emplace_back("--resume");
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
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
  Starter starter(making.flags, making.sweep, folder, making.guard);
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

void say_end(const study::SweepEnd& end, const report::Sweep& sweep, const Context& context) {
  if (context.quiet || context.json || (!end.signal && !end.failed_fast)) return;
  const std::size_t open = runs_with(sweep, report::SweepStatus::pending) +
                           runs_with(sweep, report::SweepStatus::running);
  writer_for(stderr)(fmt::format("{}: {} of {} runs are left; go on with: {}\n",
                                 end.signal ? "stopped" : "a run failed", open, sweep.runs.size(),
                                 printable(resume_command(context))));
}

/// Each task of a launcher would start the same sweep.
void expect_one_task() {
  const auto task = launch::task_place([](const char* name) { return std::getenv(name); });
  ENSURE(config, !task || task->world_size == 1,
         "{} has started {} tasks of this sweep, and one makes all of its runs: start one task",
         launch::name_of(task->launcher), task->world_size);
}

int sweep(const SweepFlags& flags, Context& context) {
  launch::end_on_stop_signals();  // nothing has begun that could be saved
  expect_one_task();
  const PlannedSweep planned = plan_sweep(flags, context);
  print_warnings(context);
  if (const fs::path csv = fs::path(flags.csv).parent_path(); !csv.empty()) make_folder(csv);
  const fs::path folder = folder_of(flags, planned);
  const study::FolderLock lock = lock_of(folder);
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
  say_end(end, told, context);
  return exit_code;
}

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
                "go on with the sweep of the folder; another definition adds to its runs");
  verb.add_flag("--retry-failed", flags.retry_failed, "run again what has failed");
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    return fmt::format("'{}' is not one of {}", printable(text), join(names, ", "));
  };
}

}  // namespace

void add_sweep(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<SweepFlags>();
  CLI::App& verb = add_verb(
      program, context,
      {"sweep", "many settings as runs of one ledger, which survives being killed", kTrainGroup},
      [flags, &context] { return sweep(*flags, context); });
  add_config_arguments(verb, flags->config);
  add_ways(verb, *flags);
  verb.add_option("--monitor", flags->monitor,
                  "what settings are ranked by, such as val/accuracy; the experiment's own")
      ->type_name("METRIC");
  verb.add_option("--mode", flags->mode, "whether the lowest or the highest is best: min, max")
      ->type_name("HOW")
      ->check(one_of({"min", "max"}));
  verb.add_option("--against", flags->against, "the row that all are compared with: best, first")
      ->type_name("WHICH")
      ->check(one_of({"best", "first"}));
  add_course(verb, *flags);
  verb.add_option("--out", flags->out, "folder of the sweep; runs/sweep/NAME")->type_name("DIR");
  verb.add_option("--csv", flags->csv, "write a line a run to this file")->type_name("FILE");
  verb.footer(
      "Keys that vary:  optimizer.lr=0.1,0.01  model.hidden=[32],[64]  "
      "loader.batch_size=range(16,65,16)\n"
      "To draw from:    optimizer.lr=log(1e-4,1e-1)  model.dropout=uniform(0,0.5)  "
      "optimizer.type=choice(sgd,adam)\n"
      "Exit codes: 0 all runs are done; 5 some have failed; 75 or 130 stopped, go on with "
      "--resume.");
}

}  // namespace trainctl::app
