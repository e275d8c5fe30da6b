#include "study/sweep/sweep.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "events/records.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/text/table.hpp"
#include "study/folder/folder_lock.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <set>
#include <thread>

namespace trainctl::study {
namespace {

using report::SweepStatus;

/// The runs of one setting, which differ only in seed and fold, and advance together.
using SeedGroup = std::vector<const LedgerRun*>;

std::vector<SeedGroup> settings_of(const std::vector<LedgerRun>& runs) {
  std::vector<SeedGroup> settings;
  std::map<std::string, std::size_t> places;
  for (const LedgerRun& run : runs) {
    const auto [place, is_new] = places.try_emplace(run.plan.config, settings.size());
    if (is_new) settings.emplace_back();
    settings[place->second].push_back(&run);
  }
  return settings;
}

int target_of(const SeedGroup& setting) {
  int target = -1;
  for (const LedgerRun* run : setting) target = std::max(target, run->target);
  return target;
}

/// A run that has ended by itself counts for every rung up to its target.
bool has_reached(const LedgerRun& run, int rung) {
  return run.rung >= rung || run.status == SweepStatus::ok || run.status == SweepStatus::failed;
}

std::optional<double> value_at_rung(const LedgerRun& run, int rung) {
  if (run.status == SweepStatus::failed || run.rung_values.empty()) return std::nullopt;
  const std::size_t last = run.rung_values.size() - 1;
  return run.rung_values[std::min(last, static_cast<std::size_t>(rung))];
}

std::optional<double> value_at_rung(const SeedGroup& setting, int rung) {
  std::vector<double> values;
  for (const LedgerRun* run : setting) {
    const auto value = value_at_rung(*run, rung);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return mean(values);
}

Halving halving_of(const std::vector<SeedGroup>& settings, const SweepPlan& plan) {
  Halving halving(plan.rungs.size(), plan.eta, plan.ranking.better);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const int target = target_of(settings[i]);
    const int last = std::min(target, static_cast<int>(plan.rungs.size()) - 1);
    for (int rung = 0; rung <= last; ++rung) {
      halving.begin(static_cast<std::size_t>(rung), i);
      const bool all_reached = std::ranges::all_of(
          settings[i], [&](const LedgerRun* run) { return has_reached(*run, rung); });
      if (all_reached)
        halving.report(static_cast<std::size_t>(rung), i, value_at_rung(settings[i], rung));
    }
  }
  return halving;
}

/// Returns whether a seed was added to the definition after the others had advanced.
bool has_late_seed(const SeedGroup& setting) {
  const int target = target_of(setting);
  return std::ranges::any_of(setting, [&](const LedgerRun* run) {
    return run->status == SweepStatus::pending && run->target < target;
  });
}

void set_target(Ledger& ledger, const SeedGroup& setting, int rung) {
  std::vector<std::int64_t> numbers;
  for (const LedgerRun* run : setting) numbers.push_back(run->number);
  ledger.set_target(numbers, rung);
}

constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;

std::string text_at(const fs::path& path) {
  if (!is_file(path)) return {};
  try {
    return read_file(path, kMostFileBytes, ReadFailure::resource);
  } catch (const Error&) {
    return {};
  }
}

void add_metrics(const Json& document, const char* split, RunEnd& end) {
  const Json& metrics = report::member(document, split);
  if (!metrics.is_object()) return;
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number())
      end.metrics.emplace_back(std::string(split) + "/" + name, value.get<double>());
  }
}

/// Used without epochs.csv: returns the best value if result.json has the same monitor, else the
/// value of the last epoch.
std::optional<double> value_in(const Json& document, const RunEnd& end, const Ranking& ranking) {
  const Json& best = report::member(document, "best");
  if (report::member(best, "metric") == ranking.monitor) return report::finite_at(best, "value");
  return events::find_metric(end.metrics, ranking.monitor);
}

/// Returns whether the OOM killer has killed a rank, which the supervisor of the run survives.
bool lacked_memory(const Json& document) {
  constexpr const char* kCause = "out of memory";
  const Json& failure = report::member(document, "first_failure");
  const Json& signal = report::member(failure, "signal");
  return signal == "SIGKILL" || signal == SIGKILL ||
         report::text_at(failure, "message").find(kCause) != std::string::npos;
}

constexpr int kSignalled = 128;
constexpr double kPollS = 1;  // limits the wait if a wake-up is lost

/// Waits, because a killed process takes a moment to exit.
void await_holder(const fs::path& run_dir, const SweepHooks& hooks) {
  constexpr double kMostS = 15;
  constexpr auto kPause = std::chrono::milliseconds(50);
  const fs::path lock = run_dir / FolderLock::kFileName;
  const double deadline = hooks.clock.now() + kMostS;
  for (;;) {
    const auto holder = lock_holder(run_dir);
    if (!holder || why_exited(*holder, this_process())) return;
    ENSURE(resource, is_certainly_alive(*holder, this_process()) && hooks.clock.now() < deadline,
           "the sweep's run {} is in use by pid {} on {}\nhint: wait for that process or stop it; "
           "if it no longer exists, remove {}",
           printable(run_dir.string()), holder->pid, printable(holder->host),
           printable(lock.string()));
    std::this_thread::sleep_for(kPause);
  }
}

/// Returns whether the process or one of its ranks was killed, or reported a lack of resources, and
/// may succeed with fewer concurrent runs.
bool lacked_resources(const RunEnd& end) {
  const bool lost_a_rank = end.exit_code == static_cast<int>(ErrorKind::rank_failed);
  return end.exit_code == static_cast<int>(ErrorKind::resource) ||
         end.exit_code == kSignalled + SIGKILL || (lost_a_rank && end.lacked_memory);
}

class SweepLoop {
 public:
  SweepLoop(Ledger& ledger, const SweepPlan& plan, const SweepHooks& hooks)
      : ledger_(ledger), plan_(plan), hooks_(hooks), allowed_(plan.jobs) {}

  SweepEnd run() {
    recover_runs();
    for (;;) {
      collect();
      if (!stopping_) start_runs();
      if (running_.empty() && (stopping_ || nothing_left_)) break;
      handle_signals(hooks_.wait(wait_s()));
    }
    if (!stopping_) prune_rest();
    return end_;
  }

 private:
  struct Running {
    LedgerRun run;
    std::unique_ptr<JobProcess> process;
    double started_at = 0;
  };

  void recover_runs() {
    for (const LedgerRun& run : ledger_.runs()) {
      if (run.status == SweepStatus::running) recover(run);
    }
  }

  void recover(const LedgerRun& run) {
    const fs::path folder = run_folder(plan_.folder, run.number);
    await_holder(folder, hooks_);
    const auto end = run_end(folder, run.result_before, plan_.ranking);
    const bool is_over = end && !launch::is_stop_code(end->exit_code) && !lacked_resources(*end);
    log::get().info("run {} was running when its sweep was killed: {}", run_id(run.number),
                    is_over ? "it has ended" : "it resumes from its newest checkpoint");
    if (is_over) {
      record(run, *end);
    } else {
      put_back(run, Ledger::Reason::stopped);
    }
  }

  void start_runs() {
    nothing_left_ = false;
    while (std::ssize(running_) < allowed_ && hooks_.clock.now() >= not_before_) {
      if (!start_next()) {
        nothing_left_ = true;
        return;
      }
    }
  }

  bool start_next() {
    const auto run = next_run(ledger_, plan_);
    if (!run) return false;
    const fs::path folder = run_folder(plan_.folder, run->number);
    // The claim comes before the start, so that a later sweep knows that the run may have started.
    ledger_.claim(run->number, lock_line(this_process()), result_hash(folder));
    Running running{*run, nullptr, hooks_.clock.now()};
    try {
      running.process = hooks_.start({run->number, run->plan, folder, limit_of(*run)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      record(*run, {.exit_code = error.exit_code(), .message = one_line(error.what())});
      return true;
    }
    running_.push_back(std::move(running));
    return true;
  }

  void collect() {
    for (std::size_t i = 0; i < running_.size();) {
      const auto exit_code = running_[i].process->poll_exit_code();
      if (!exit_code) {
        ++i;
        continue;
      }
      const Running ended = std::move(running_[i]);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      finish(ended, *exit_code);
    }
  }

  void finish(const Running& running, int exit_code) {
    const bool was_stopped =
        launch::is_stop_code(exit_code) || (killed_ && exit_code == kSignalled + SIGKILL);
    if (was_stopped) {
      put_back(running.run, Ledger::Reason::stopped);
      // A stop signal to a run stops the sweep, as when a scheduler signals all processes.
      if (!stopping_)
        handle_signals({exit_code == static_cast<int>(ErrorKind::interrupted) ? SIGINT : SIGTERM});
      return;
    }
    record(running.run, end_of(running, exit_code));
  }

  void record(const LedgerRun& run, const RunEnd& end) {
    if (lacked_resources(end) && run.retries < plan_.retries) {
      log::get().warn("run {} ran out of resources and is retried in {}: {}", run_id(run.number),
                      human_duration(kRetryPauseS), one_line(end.message));
      put_back(run, Ledger::Reason::lacked_resources);
      allowed_ = std::max(1, allowed_ - 1);
      not_before_ = hooks_.clock.now() + kRetryPauseS;
      return;
    }
    const auto limit = limit_of(run);
    const bool is_complete = !limit || end.epochs < *limit;  // early stopping, or another limit
    ledger_.end(run.number, end, is_complete);
    if (end.exit_code == 0) allowed_ = std::min(plan_.jobs, allowed_ + 1);
    report_update(std::array{run.number});
    if (end.exit_code == 0 || plan_.on_failure == OnFailure::keep_going) return;
    end_.failed_fast = true;
    if (!std::exchange(stopping_, true)) stop_all(SIGTERM);
  }

  void put_back(const LedgerRun& run, Ledger::Reason reason) {
    ledger_.put_back(run.number, reason);
    report_update(std::array{run.number});
  }

  void handle_signals(const std::vector<int>& signals) {
    for (const int signal : signals) {
      if (!end_.signal) {
        end_.signal = signal;
        stopping_ = true;
        stop_all(SIGTERM);  // also for Ctrl-C: the sweep is interrupted, and the runs save
      } else {
        killed_ = true;
        stop_all(SIGKILL);
      }
    }
  }

  void stop_all(int signal) {
    for (const Running& running : running_) running.process->signal(signal);
  }

  void prune_rest() {
    std::vector<std::int64_t> rest;
    for (const LedgerRun& run : ledger_.runs()) {
      if (run.status == SweepStatus::pending) rest.push_back(run.number);
    }
    if (rest.empty()) return;
    ledger_.prune(rest);
    report_update(rest);
  }

  void report_update(std::span<const std::int64_t> numbers) const {
    if (!hooks_.on_update) return;
    const std::set<std::int64_t> wanted(numbers.begin(), numbers.end());
    std::vector<LedgerRun> runs = ledger_.runs();
    std::erase_if(runs, [&](const LedgerRun& run) { return !wanted.contains(run.number); });
    hooks_.on_update(runs);
  }

  /// Combines the exit code with the other values of result.json, if that file is from this start.
  [[nodiscard]] RunEnd end_of(const Running& running, int exit_code) const {
    const std::int64_t number = running.run.number;
    const fs::path folder = run_folder(plan_.folder, number);
    const auto before = ledger_.runs();
    const auto claimed = std::ranges::find(before, number, &LedgerRun::number);
    RunEnd end;
    if (auto result = run_end(folder, claimed->result_before, plan_.ranking))
      end = std::move(*result);
    end.exit_code = exit_code;
    end.wall_s = hooks_.clock.now() - running.started_at;
    if (exit_code != 0 && end.message.empty())
      end.message = last_log_line(plan_.folder / "logs" / (run_id(number) + ".log"));
    if (exit_code > kSignalled && !launch::is_stop_code(exit_code))
      end.message = fmt::format("its process was killed by signal {}{}{}", exit_code - kSignalled,
                                end.message.empty() ? "" : "; ", end.message);
    return end;
  }

  /// Returns the seconds to wait for a signal, at most until the retry pause ends.
  [[nodiscard]] double wait_s() const {
    const double pause = not_before_ - hooks_.clock.now();
    return pause > 0 && !stopping_ ? std::min(pause, kPollS) : kPollS;
  }

  [[nodiscard]] std::optional<std::int64_t> limit_of(const LedgerRun& run) const {
    const auto target = static_cast<std::size_t>(run.target);
    if (target + 1 >= plan_.rungs.size()) return std::nullopt;
    return plan_.rungs[target];
  }

  Ledger& ledger_;
  const SweepPlan& plan_;
  const SweepHooks& hooks_;
  int allowed_;  // concurrent runs
  double not_before_ = 0;
  std::vector<Running> running_;
  bool stopping_ = false;
  bool killed_ = false;
  bool nothing_left_ = false;
  SweepEnd end_;
};

}  // namespace

std::optional<LedgerRun> next_run(Ledger& ledger, const SweepPlan& plan) {
  for (;;) {
    const std::vector<LedgerRun> runs = ledger.runs();
    const auto ready = std::ranges::find_if(runs, [](const LedgerRun& run) {
      return run.status == SweepStatus::pending && run.target > run.rung;
    });
    if (ready != runs.end()) return *ready;
    const std::vector<SeedGroup> settings = settings_of(runs);
    if (const auto late = std::ranges::find_if(settings, has_late_seed); late != settings.end()) {
      set_target(ledger, *late, target_of(*late));
      continue;
    }
    if (const auto promoted = halving_of(settings, plan).next()) {
      set_target(ledger, settings[promoted->setting], static_cast<int>(promoted->rung));
      continue;
    }
    const auto fresh = std::ranges::find_if(
        settings, [](const SeedGroup& setting) { return target_of(setting) < 0; });
    if (fresh == settings.end()) return std::nullopt;
    set_target(ledger, *fresh, 0);
  }
}

std::vector<std::int64_t> rungs_of(std::int64_t least, std::int64_t most, int eta) {
  ENSURE(config, eta >= 2, "--eta must be at least 2, got {}", eta);
  ENSURE(config, least >= 1, "--min-epochs must be at least 1, got {}", least);
  ENSURE(
      config, least < most,
      "--min-epochs must be below trainer.max_epochs, got {} and {}\nhint: lower --min-epochs or "
      "raise trainer.max_epochs",
      least, most);
  std::vector<std::int64_t> rungs;
  for (std::int64_t epochs = least; epochs < most; epochs *= eta) {
    rungs.push_back(epochs);
    if (epochs > most / eta) break;  // prevents an integer overflow
  }
  rungs.push_back(most);
  return rungs;
}

void Halving::report(std::size_t rung, std::size_t setting, std::optional<double> value) {
  ASSERT(rung < rungs_.size());
  if (value && !std::isfinite(*value)) value.reset();
  rungs_[rung].values[setting] = value;
  begin(rung, setting);
}

void Halving::begin(std::size_t rung, std::size_t setting) {
  ASSERT(rung < rungs_.size());
  for (std::size_t i = 0; i <= rung; ++i) rungs_[i].begun[setting] = true;
}

std::optional<Halving::Promotion> Halving::next() const {
  for (std::size_t rung = rungs_.size() - 1; rung-- > 0;) {
    std::vector<std::pair<double, std::size_t>> best;
    for (const auto& [setting, value] : rungs_[rung].values) {
      if (value) best.emplace_back(better_ == report::Better::lower ? *value : -*value, setting);
    }
    std::ranges::sort(best);
    const std::size_t most = rungs_[rung].values.size() / static_cast<std::size_t>(eta_);
    for (std::size_t i = 0; i < std::min(most, best.size()); ++i) {
      if (!rungs_[rung + 1].begun.contains(best[i].second))
        return Promotion{best[i].second, rung + 1};
    }
  }
  return std::nullopt;
}

std::string result_hash(const fs::path& run_dir) {
  const std::string text = text_at(run_dir / "result.json");
  if (text.empty()) return {};
  Hasher hasher;
  hasher.add(text);
  return hasher.hex();
}

std::optional<RunEnd> run_end(const fs::path& run_dir, const std::string& result_before,
                              const Ranking& ranking) {
  const std::string text = text_at(run_dir / "result.json");
  if (text.empty() || result_hash(run_dir) == result_before) return std::nullopt;
  const Json document = parse_json(text);
  if (!report::member(document, "exit_code").is_number_integer()) return std::nullopt;
  RunEnd end;
  end.exit_code = document["exit_code"].get<int>();
  end.message = report::text_at(document, "message");
  end.epochs = static_cast<std::int64_t>(report::finite_at(document, "epochs").value_or(0));
  end.wall_s = report::finite_at(document, "wall_s").value_or(0);
  end.lacked_memory = lacked_memory(document);
  add_metrics(document, "train", end);
  add_metrics(document, "val", end);
  end.value = best_in_table(run_dir / "epochs.csv", ranking);
  if (!end.value) end.value = value_in(document, end, ranking);
  return end;
}

std::optional<double> value_in(const LedgerRun& run, const Ranking& ranking) {
  return events::find_metric(run.metrics, ranking.monitor);
}

std::string last_log_line(const fs::path& log) {
  constexpr std::size_t kMostShown = 300;
  const std::string text = text_at(log);
  const std::vector<std::string> lines = split(text, '\n');
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.find_first_not_of(" \t\r") != std::string::npos;
  });
  return last == lines.rend() ? std::string() : last->substr(0, kMostShown);
}

std::optional<double> best_in_table(const fs::path& epochs_csv, const Ranking& ranking) {
  const std::vector<std::string> lines = split(text_at(epochs_csv), '\n');
  if (lines.empty()) return std::nullopt;
  const std::vector<std::string> header = report::csv_cells(lines.front());
  const auto column = std::ranges::find(header, ranking.monitor);
  if (column == header.end()) return std::nullopt;
  const auto at = static_cast<std::size_t>(column - header.begin());
  std::optional<double> best;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = report::csv_cells(lines[i]);
    const auto value = at < cells.size() ? parse_number<double>(cells[at]) : std::nullopt;
    if (!value || !std::isfinite(*value)) continue;
    const bool is_better =
        !best || (ranking.better == report::Better::lower ? *value < *best : *value > *best);
    if (is_better) best = value;
  }
  return best;
}

std::string run_id(std::int64_t number) { return fmt::format("{:04}", number); }

fs::path run_folder(const fs::path& sweep, std::int64_t number) {
  return sweep / "runs" / run_id(number);
}

bool is_finished(const std::vector<LedgerRun>& runs) {
  return std::ranges::none_of(runs, [](const LedgerRun& run) {
    return run.status == SweepStatus::pending || run.status == SweepStatus::running;
  });
}

SweepEnd run_sweep(Ledger& ledger, const SweepPlan& plan, const SweepHooks& hooks) {
  ASSERT(!plan.rungs.empty() && plan.jobs >= 1);
  return SweepLoop(ledger, plan, hooks).run();
}

}  // namespace trainctl::study
