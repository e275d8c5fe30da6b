#include "study/tune/tuning_run.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "spec/experiment/run_size.hpp"
#include "study/bench/trials.hpp"
#include "study/workers/worker_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr std::int64_t kFirstBatches = 8;
constexpr std::int64_t kFewestBatches = 4;
constexpr std::int64_t kMostGrowth = 16;  // of a guess made by a run that was too short
constexpr int kMostScouts = 5;

void add_lean(std::vector<std::string>& overrides) {
  overrides.emplace_back("++dataset.val=~");
  overrides.emplace_back(
      "++checkpoint={monitor: train/loss, save_top_k: 0, save_last: false, every_n_epochs: 1}");
}

void shorten_validation(const spec::Experiment& experiment, double part,
                        std::vector<std::string>& overrides) {
  const spec::Limit& limit = experiment.trainer.limit_val_batches;
  if (!experiment.dataset.val || part >= 1 || limit.batches == 0) return;
  if (limit.batches) {
    const double batches = std::round(static_cast<double>(*limit.batches) * part);
    overrides.push_back(fmt::format("++trainer.limit_val_batches={}",
                                    std::max<std::int64_t>(1, std::llround(batches))));
  } else {
    overrides.push_back(fmt::format("++trainer.limit_val_batches={:.8f}", limit.fraction * part));
  }
}

/// Saves weigh in a shortened epoch as they would in a whole one.
events::Timing as_in_whole_epochs(events::Timing timing, double part) {
  const double excess_s = timing.checkpoint_s * (1 - part);
  timing.checkpoint_s -= excess_s;
  timing.wall_s -= excess_s;
  return timing;
}

/// On a busy machine the verdict as it would be without the others: which key to try does not
/// depend on them.
report::TuneVerdict verdict_of(const RunOutcome& run, const events::Timing& timing) {
  const report::Bottleneck found =
      report::find_bottleneck(timing, report::context_of(run.record, run.ending.levers));
  const bool is_busy = !found.otherwise.empty();
  const report::Bottleneck& told = is_busy ? found.otherwise.front() : found;
  return {report::name_of(told.limit),
          told.share,
          told.without_waits,
          told.advice,
          told.setting,
          told.cause,
          is_busy ? found.share : 0};
}

TuneFacts facts_of(const RunOutcome& run, const events::Timing& timing,
                   const report::Trial& trial) {
  TuneFacts facts;
  if (const auto& started = run.record.started) {
    facts.num_workers = started->num_workers;
    facts.prefetch_factor = started->prefetch_factor;
    facts.num_threads = started->num_threads;
    facts.channels_last = started->channels_last;
    facts.ranks = std::max(started->world_size, 1);
    facts.train_samples = started->train_samples;
  }
  facts.cores = std::max(run.ending.levers.cpu_cores / facts.ranks, 1);
  const auto hello = run.record.hellos.find(0);
  facts.on_gpu = hello != run.record.hellos.end() && hello->second.device.starts_with("cuda");
  facts.cpu_percent = timing.cpu_percent;
  facts.environment = slow_variable();
  if (trial.slowest) facts.behind = trial.slowest->behind;
  return facts;
}

TuneResult sample_of(const RunOutcome& run, const TuneLength& length) {
  const events::Timing steady = report::sum_timing(report::steady_epochs(run.record));
  if (!(steady.wall_s > 0) || steady.samples <= 0)
    return report::TrialFailure{1, "a run told no epoch; see " + run.folder.string()};
  const events::Timing timing = as_in_whole_epochs(steady, length.part);
  TuneSample sample{.trial = report::trial_of(run.record, run.ending.wall_s)};
  sample.sample_s = steady.wall_s / static_cast<double>(steady.samples);
  sample.verdict = verdict_of(run, timing);
  sample.facts = facts_of(run, timing, sample.trial);
  return sample;
}

TuneResult result_of(const RunOutcome& run, const TuneLength& length) {
  return run.ending.exit_code == 0 ? sample_of(run, length) : failure_of(run);
}

/// Of the experiment as it is written; 0: not known.
std::int64_t whole_epoch(const spec::Experiment& experiment, const TuneFacts& facts) {
  return facts.train_samples > 0 ? spec::train_batches(experiment, facts.train_samples, facts.ranks)
                                 : 0;
}

/// Batches whose gradients make one step stay together.
std::int64_t in_steps(const spec::Experiment& experiment, std::int64_t batches) {
  const std::int64_t step = experiment.trainer.accumulate_grad_batches;
  return (batches + step - 1) / step * step;
}

/// Start-up, as it was, and epochs that take so long.
double reckoned_run_s(const TuneSample& sample, double epoch_s) {
  double epochs_s = 0;
  for (const double each : sample.trial.epoch_s) epochs_s += each;
  return std::max(sample.trial.total_s - epochs_s, 0.0) + TuneLength{}.epochs * epoch_s;
}

std::int64_t wanted_batches(double wanted, std::int64_t ran) {
  const auto batches = static_cast<std::int64_t>(std::ceil(std::min(wanted, 1e9)));
  return std::clamp(batches, kFewestBatches, kMostGrowth * std::max(ran, kFirstBatches));
}

TuneLength length_of(std::int64_t batches, std::int64_t whole) {
  if (whole <= 0) return {.batches = batches, .part = 1, .epochs = TuneLength{}.epochs};
  if (batches >= whole) return {};
  return {.batches = batches,
          .part = static_cast<double>(batches) / static_cast<double>(whole),
          .epochs = TuneLength{}.epochs};
}

}  // namespace

std::vector<std::string> tuning_run(const spec::Experiment& experiment, const TuneLength& length,
                                    TuneScope scope) {
  std::vector<std::string> overrides{"++early_stopping=~",
                                     "++profiler=~",
                                     "++trainer.max_time=~",
                                     "++trainer.max_steps=~",
                                     fmt::format("++trainer.max_epochs={}", length.epochs),
                                     "++trainer.num_sanity_val_steps=0",
                                     "++trainer.fast_dev_run=false",
                                     "++trainer.on_divergence=[]",
                                     "++trainer.max_restarts=0"};
  if (experiment.trainer.ema) overrides.emplace_back("++trainer.ema.start_epoch=0");
  if (experiment.trainer.swa) overrides.emplace_back("++trainer.swa.start_epoch=0");
  if (length.batches > 0) {
    overrides.emplace_back("++trainer.limit_train_batches=1.0");
    overrides.push_back(fmt::format("++trainer.overfit_batches={}", length.batches));
  }
  if (scope == TuneScope::lean) {
    add_lean(overrides);
  } else {
    shorten_validation(experiment, length.part, overrides);
  }
  return overrides;
}

std::vector<std::string> without_schedule(std::vector<std::string> overrides) {
  overrides.emplace_back("++scheduler=constant");
  return overrides;
}

TuneResult run_tuning(const RunRequest& request, const TuneLength& length, const Clock& clock,
                      double most_s) {
  if (most_s <= 0)
    return report::TrialFailure{static_cast<int>(ErrorKind::hang), "no time was left for it", false,
                                true};
  const Deadline deadline(std::isfinite(most_s) ? std::optional(clock.now() + most_s)
                                                : std::nullopt);
  try {
    const RunOutcome run = run_experiment(
        request, [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
    std::error_code ignored;  // nobody asked for them, and they may be large
    fs::remove_all(run.folder / "checkpoints", ignored);
    TuneResult result = result_of(run, length);
    if (auto* failure = std::get_if<report::TrialFailure>(&result))
      failure->overdue = deadline.has_struck();
    return result;
  } catch (const Error& error) {
    return report::TrialFailure{error.exit_code(), error.what()};
  }
}

double epoch_target_s(double budget_s) {
  constexpr double kEpochsOfBudget = 180;  // 60 runs of three epochs
  return std::clamp(budget_s / kEpochsOfBudget, 0.5, 5.0);
}

std::variant<TuneScouted, report::TrialFailure> scout(const spec::Experiment& experiment,
                                                      double target_s,
                                                      const TryLength& try_length) {
  TuneLength length{.batches = in_steps(experiment, kFirstBatches), .part = 1, .epochs = 2};
  for (int runs = 1;; ++runs) {
    const TuneResult result = try_length(length);
    if (const auto* failure = std::get_if<report::TrialFailure>(&result)) return *failure;
    const auto& sample = std::get<TuneSample>(result);
    const std::int64_t whole = whole_epoch(experiment, sample.facts);
    const bool is_whole = whole > 0 && (length.batches == 0 || length.batches >= whole);
    const std::int64_t ran = is_whole ? whole : length.batches;
    const double epoch_s = std::max(sample.trial.epoch_s.back(), 1e-6);
    const double batch_s = epoch_s / static_cast<double>(ran);
    const std::int64_t next =
        is_whole ? ran : in_steps(experiment, wanted_batches(target_s / batch_s, ran));
    const TuneLength reckoned = length_of(next, whole);
    if (is_whole || epoch_s >= target_s / 2 || runs == kMostScouts)
      return TuneScouted{reckoned, sample, runs,
                         reckoned_run_s(sample, batch_s * static_cast<double>(next))};
    length = reckoned;
    length.epochs = 2;
  }
}

}  // namespace trainctl::study
