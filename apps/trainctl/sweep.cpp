#include "study/sweep/sweep.hpp"

#include "cli/verb.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "report/text/table.hpp"
#include "study/folder/run_folder.hpp"
#include "study/sweep/planned_sweep.hpp"
#include "study/sweep/run_starter.hpp"
#include "study/sweep/sweep_folder.hpp"

#include <cstdlib>

namespace trainctl::app {
namespace {

struct SweepFlags {
  ConfigArguments config;  // its overrides include the keys that vary
  study::SweepOptions options;
  bool keep_going = false;
  std::string csv;
};

constexpr const char* kLedger = "sweep.sqlite";

std::string resume_command(const Context& context, const SweepFlags& flags,
                           const fs::path& folder) {
  std::vector<std::string> words;
  for (const std::string& word : context.argv) {  // --out may name a link that changes
    const bool is_value = !words.empty() && words.back() == "--out";
    const bool is_both = word == "--out=" + flags.options.out;
    words.push_back(is_value ? folder.string() : is_both ? "--out=" + folder.string() : word);
  }
  if (flags.options.out.empty()) words.insert(words.end(), {"--out", folder.string()});
  if (std::ranges::find(words, "--resume") == words.end()) words.emplace_back("--resume");
  return shell_command(std::move(words));
}

study::SweepPlan plan_of(const study::SweepOptions& options, const study::PlannedSweep& sweep,
                         const fs::path& folder) {
  return {
      .folder = folder,
      .ranking = sweep.ranking,
      .rungs = sweep.rungs,
      .eta = options.eta,
      .jobs = options.jobs,
      .retries = options.retries,
      .on_failure = options.fail_fast ? study::OnFailure::fail_fast : study::OnFailure::keep_going};
}

/// The objects that the runs of a sweep need.
struct Making {
  study::Ledger& ledger;
  const study::SweepContext& place;
  const SweepFlags& flags;
  launch::SignalGuard& guard;
  study::SweepPage& page;

  [[nodiscard]] report::Sweep record() const {
    return study::sweep_record(ledger, place.sweep, flags.options, flags.config.file, place.folder);
  }
};

/// Writes the tables while runs end, at most once per second, since each table contains all runs.
/// The ledger has all results, so skipped updates are written after a later run or at the end.
class Tables {
 public:
  Tables(const Making& making, const Clock& clock) : making_(making), clock_(clock) {}

  void write() {
    constexpr double kEvery_s = 1;
    if (written_at_ && clock_.now() - *written_at_ < kEvery_s) return;
    const report::Sweep now = making_.record();
    try {
      study::write_sweep_files(now);
    } catch (const Error& error) {
      log::get().warn("cannot write the tables of the sweep: {}", error.what());
    }
    making_.page.write_if_due(now);
    written_at_ = clock_.now();
  }

 private:
  const Making& making_;
  const Clock& clock_;
  std::optional<double> written_at_;
};

void print_sweep(const report::Sweep& sweep, int exit_code, const study::SweepPage& page,
                 const Context& context) {
  if (context.json) {
    print_json(report::sweep_document(sweep, exit_code));
    return;
  }
  const std::vector<report::SweepRow> rows = report::sweep_rows(sweep);
  const std::string table =
      report::to_text(report::sweep_table(sweep, rows), style_for(context, stdout));
  if (context.quiet) return writer_for(stdout)(table);
  const std::string where =
      page.file().empty() ? "" : fmt::format("HTML page: {}\n", printable(page.file().string()));
  writer_for(stdout)(table + report::sweep_notes(sweep, rows) + where);
}

void say_run(const study::LedgerRun& run, const study::PlannedSweep& sweep,
             const Context& context) {
  if (progress_for(context) == report::ProgressMode::none) return;
  writer_for(stderr)(study::progress_line(run, sweep));
}

void say_repeated(const study::PlannedSweep& sweep, const Context& context) {
  if (sweep.repeated == 0 || progress_for(context) == report::ProgressMode::none) return;
  writer_for(stderr)(fmt::format(
      "{} of the settings are duplicates: each different setting runs once\n", sweep.repeated));
}

study::SweepEnd make_runs(const Making& making, const Context& context) {
  const fs::path& folder = making.place.folder;
  study::RunStarter starter(making.place, making.flags.options.jobs, making.guard);
  make_folder(folder / "configs");
  make_folder(folder / "logs");
  make_folder(folder / "runs");
  say_repeated(making.place.sweep, context);
  Tables tables(making, steady_clock());
  const auto report_finished = [&](std::span<const study::LedgerRun> runs) {
    for (const study::LedgerRun& run : runs) {
      starter.release(run.number);
      say_run(run, making.place.sweep, context);
    }
    tables.write();
  };
  const study::SweepHooks hooks{
      .start = [&](const study::SweepJob& job) { return starter.start(job); },
      .wait = [&](double seconds) { return study::wait_for_signals(making.guard, seconds); },
      .on_update = report_finished,
      .clock = steady_clock()};
  return study::run_sweep(making.ledger, plan_of(making.flags.options, making.place.sweep, folder),
                          hooks);
}

void say_end(const study::SweepEnd& end, const report::Sweep& sweep, const std::string& command,
             const Context& context) {
  if (context.quiet || context.json || (!end.signal && !end.failed_fast)) return;
  const std::size_t open = runs_with(sweep, report::SweepStatus::pending) +
                           runs_with(sweep, report::SweepStatus::running);
  writer_for(stderr)(fmt::format("{}: {} of {} runs are left; resume with: {}\n",
                                 end.signal ? "stopped" : "a run failed", open, sweep.runs.size(),
                                 printable(command)));
}

/// Throws for more than one task of a launcher, since each task would start the same sweep.
void expect_one_task() {
  const auto task = launch::find_launcher_task([](const char* name) { return std::getenv(name); });
  ENSURE(config, !task || task->world_size == 1,
         "a sweep must run in one task, but {} started {} tasks\nhint: start one task",
         launch::name_of(task->launcher), task->world_size);
}

int sweep(const SweepFlags& flags, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  launch::exit_on_stop_signals();  // nothing to save so far
  expect_one_task();
  const study::SweepOptions& options = flags.options;
  const study::Invocation invocation = invocation_of(flags.config, context);
  const study::PlannedSweep planned = study::plan_sweep(options, invocation, context.diagnostics);
  print_warnings(context);
  if (const fs::path csv = fs::path(flags.csv).parent_path(); !csv.empty()) make_folder(csv);
  const study::RunFolder taken = study::sweep_folder(options, planned.name);
  study::Ledger ledger(taken.path / kLedger);
  const study::PendingWork work = study::prepare(ledger, planned, options, taken.path);
  launch::SignalGuard guard;  // a signal after the last run must not prevent the table
  study::SweepEnd end;
  study::SweepPage page(steady_clock());
  const study::SweepContext place{planned, invocation, taken.path};
  const Making making{ledger, place, flags, guard, page};
  if (work == study::PendingWork::runs) end = make_runs(making, context);
  const report::Sweep record = making.record();
  const int exit_code = study::exit_code_of(record, end.signal);
  study::write_sweep_files(record);
  if (!flags.csv.empty())
    write_atomically(flags.csv, report::to_csv(report::sweep_results(record)));
  page.write(record);
  print_sweep(record, exit_code, page, context);
  say_end(end, record, resume_command(context, flags, taken.path), context);
  return exit_code;
}

}  // namespace

void add_sweep(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"sweep", "train with many settings; can be resumed after a crash", kTrainGroup,
                WorkingDirectory::existing},
               sweep);
  add_config_arguments(verb, flags.config, context);
  study::SweepOptions& options = flags.options;
  add_options(
      verb,
      {{"--list", options.list, "FILE", "run the settings listed in a YAML file"},
       {"--samples", options.samples, "N", "draw N random settings", whole_number(1, 10'000)},
       {"--lhs", options.lhs, "N", "draw N settings as a Latin hypercube", whole_number(1, 10'000)},
       {"--sample-seed", options.sample_seed, "N", "seed of --samples and --lhs (default: 0)",
        whole_number(0, INT64_MAX)},
       {"--seeds", options.seeds, "LIST", "run each setting with these seeds, for example 0,1,2"},
       {"--folds", options.folds, "K",
        "cross-validate: run each setting once for each of K folds of dataset.train",
        whole_number(2, 1000)},
       {"--asha", options.asha, "stop worse runs early (asynchronous successive halving)"},
       {"--eta", options.eta, "N",
        "with --asha: keep the best 1/N of the runs at each comparison (default: 3)",
        whole_number(2, 1000)},
       {"--min-epochs", options.min_epochs, "N",
        "with --asha: epochs that each run trains at least (default: 1)",
        whole_number(1, 1'000'000'000)},
       {"--monitor", options.monitor, "METRIC",
        "metric that ranks settings, for example val/loss (default: checkpoint.monitor)"},
       {"--mode", options.mode, "HOW",
        "whether lower (min) or higher (max) values are better (default: depends on the metric)",
        one_of({"min", "max"})},
       {"--against", options.against, "WHICH",
        "setting to compare the others with: best or first (default: best)",
        one_of({"best", "first"})},
       {"--jobs", options.jobs, "N", "runs at the same time (default: 1)", whole_number(1, 1000)},
       {"--retries", options.retries, "N",
        "retries of each run that ends with exit code 11 or is killed (default: 1)",
        whole_number(0, 1000)},
       {"--fail-fast", options.fail_fast, "stop the sweep when a run fails"},
       {"--keep-going", flags.keep_going, "continue when a run fails (default)"},
       {"--resume", options.resume, "resume the sweep in --out (default: the newest)"},
       {"--retry-failed", options.retry_failed, "run failed settings again"},
       {"--out", options.out, "DIR", "sweep folder (default: runs/sweep/NAME/TIME)"},
       {"--csv", flags.csv, "FILE", "write one line per run to a CSV file"}});
  verb.get_option("--keep-going")->excludes("--fail-fast");
  verb.footer(
      "Values to combine:  optimizer.lr=0.1,0.01  model.hidden=[32],[64]  "
      "loader.batch_size=range(16,65,16)\n"
      "Values to draw:     optimizer.lr=log(1e-4,1e-1)  model.dropout=uniform(0,0.5)  "
      "optimizer.type=choice(sgd,adam)\n"
      "Exit codes: 0 all runs are done; 5 some failed; 75 or 130 stopped: resume with --resume.");
}

}  // namespace trainctl::app
