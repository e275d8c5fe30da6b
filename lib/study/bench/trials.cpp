#include "study/bench/trials.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace trainctl::study {
namespace {

bool was_stopped(const report::BenchRow& row) {
  return row.failure && launch::is_stop_code(row.failure->exit_code);
}

/// Adds the run to its row; returns false if the run was stopped or exceeded the budget.
bool add_result(report::BenchRow& row, TrialResult result, const std::string& which) {
  if (auto* trial = std::get_if<report::Trial>(&result)) {
    row.trials.push_back(std::move(*trial));
    return true;
  }
  auto failure = std::get<report::TrialFailure>(std::move(result));
  if (failure.overdue) return false;
  row.failure = std::move(failure);
  row.failure->message = fmt::format("{} ({}): {}", row.technique, which, row.failure->message);
  return !was_stopped(row);
}

class Budget {
 public:
  explicit Budget(const Rounds& rounds) : rounds_(rounds) {}

  bool allows_round(int repeat) {
    if (!rounds_.ends_at) return true;
    const double now = rounds_.clock->now();
    if (repeat > 0) longest_s_ = std::max(longest_s_, now - began_);
    began_ = now;
    return repeat == 0 || now + longest_s_ <= *rounds_.ends_at;
  }

  [[nodiscard]] bool allows_run(int repeat) const {
    return repeat > 0 || !rounds_.ends_at || rounds_.clock->now() <= *rounds_.ends_at;
  }

 private:
  const Rounds& rounds_;
  double began_ = 0;
  double longest_s_ = 0;
};

/// A second attempt or a restart would be included in the measured time.
RunRequest one_attempt(RunRequest request) {
  request.loaded.experiment.trainer.max_restarts = 0;
  request.loaded.experiment.trainer.on_divergence.clear();
  return request;
}

class DeadlineSink : public report::Sink {
 public:
  DeadlineSink(double at, std::shared_ptr<bool> expired) : at_(at), expired_(std::move(expired)) {}

  void on_event(int /*rank*/, const events::Event& /*event*/) override {}

  // An exception from here ends the job.
  void on_tick(double now) override {
    if (now < at_ || *expired_) return;
    *expired_ = true;
    throw Error(ErrorKind::hang, "the run was killed because it exceeded its time limit");
  }

  void close() override {}

 private:
  double at_;
  std::shared_ptr<bool> expired_;
};

/// Passes the steps of rank 0 to a function.
class StepListener final : public report::Sink {
 public:
  explicit StepListener(const OnStep& on_step) : on_step_(on_step) {}

  void on_event(int rank, const events::Event& event) override {
    const auto* logged = std::get_if<events::StepLogged>(&event);
    if (rank == 0 && logged != nullptr) on_step_(*logged);
  }
  void on_tick(double /*now*/) override {}
  void close() override {}

 private:
  const OnStep& on_step_;
};

}  // namespace

std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, const Rounds& rounds,
                                         const RunTrial& run_trial) {
  std::vector<report::BenchRow> rows;
  for (const Setting& setting : settings)
    rows.push_back({setting.technique, setting.values, {}, {}});
  Budget budget(rounds);
  for (int repeat = 0; repeat < rounds.repeats && budget.allows_round(repeat); ++repeat) {
    const std::string which = fmt::format("run {} of {}", repeat + 1, rounds.repeats);
    for (std::size_t turn = 0; turn < settings.size(); ++turn) {
      const std::size_t i = repeat % 2 == 0 ? turn : settings.size() - 1 - turn;
      if (rows[i].failure) continue;
      if (!budget.allows_run(repeat) || !add_result(rows[i], run_trial(i, repeat), which))
        return rows;
    }
  }
  return rows;
}

bool is_whole_round(std::span<const report::BenchRow> rows) {
  return std::ranges::all_of(rows, [](const report::BenchRow& row) {
    return !row.trials.empty() || row.failure.has_value();
  });
}

std::string budget_note(std::span<const report::BenchRow> rows, int repeats,
                        const std::string& budget) {
  auto least = static_cast<std::size_t>(repeats);
  for (const report::BenchRow& row : rows) {
    if (!row.failure) least = std::min(least, row.trials.size());
  }
  if (budget.empty() || least == static_cast<std::size_t>(repeats)) return "";
  return fmt::format("The budget of {} left time for {} of {} repeats.\n", printable(budget), least,
                     repeats);
}

int exit_code_of(std::span<const report::BenchRow> rows) {
  int code = 0;
  for (const report::BenchRow& row : rows) {
    if (was_stopped(row)) return row.failure->exit_code;
    if (row.failure && code == 0) code = row.failure->exit_code;
  }
  return code;
}

report::TrialFailure failure_of(const RunOutcome& run) {
  const report::RunResult& ending = run.ending;
  const std::string cause =
      ending.message.empty() ? "the run ended as " + ending.verdict : ending.message;
  return {.exit_code = ending.exit_code,
          .message = with_reference(cause, run.folder.string()),
          .killed = ending.first_failure && ending.first_failure->signal == SIGKILL};
}

TrialResult run_trial(const RunRequest& request, const Clock& clock,
                      std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  try {
    const RunOutcome run = run_experiment(
        one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
    if (run.ending.exit_code == 0) return report::trial_of(run.record, run.ending.wall_s);
    report::TrialFailure failure = failure_of(run);
    failure.overdue = deadline.has_expired();
    return failure;
  } catch (const Error& error) {
    // The folder could not be created; the earlier runs are still worth a table.
    return report::TrialFailure{error.exit_code(), error.what()};
  }
}

WarmUp warm_up(const RunRequest& request, const Clock& clock, std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  const RunOutcome run = run_experiment(
      one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
  WarmUp found{.threads = {},
               .channels_last = {},
               .taken = 0,
               .stopped = {},
               .overdue = deadline.has_expired()};
  if (launch::is_stop_code(run.ending.exit_code)) found.stopped = run.ending.exit_code;
  if (run.record.started) {
    found.threads = run.record.started->num_threads;
    found.channels_last = run.record.started->channels_last;
    found.taken = run.record.started->num_threads_taken;
  }
  return found;
}

RunOutcome run_with(const RunRequest& request, const OnStep& on_step, const Clock& clock) {
  const auto make_sinks = [&](const fs::path& /*run_dir*/) {
    Sinks sinks;
    sinks.push_back(std::make_unique<StepListener>(on_step));
    return sinks;
  };
  return run_experiment(request, make_sinks, clock);
}

Sinks Deadline::sinks() const {
  Sinks sinks;
  if (at_) sinks.push_back(std::make_unique<DeadlineSink>(*at_, expired_));
  return sinks;
}

std::vector<std::string> short_run(int steps) {
  return {"++early_stopping=~",
          "++metrics=[]",
          "++dataset.val=~",
          "++profiler=~",
          "++checkpoint={monitor: train/loss, save_top_k: 0, save_last: false}",
          "++trainer.max_epochs=~",
          "++trainer.max_time=~",
          fmt::format("++trainer.max_steps={}", steps),
          "++trainer.log_every_n_steps=1",
          "++trainer.log_norms=false",
          "++trainer.num_sanity_val_steps=0",
          "++trainer.fast_dev_run=false",
          "++trainer.on_divergence=[]",
          "++trainer.max_restarts=0",
          "++trainer.ema=~",
          "++trainer.swa=~"};
}

}  // namespace trainctl::study
