#include "study/tune/batch_size_search.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/bench/trials.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainctl::study {
namespace {

constexpr int kSteps = 20;                // with fewer, 5 % cannot be distinguished from noise
constexpr int kFewestSteps = 3;           // in an epoch
constexpr double kWorthwhileRate = 1.05;  // relative to the best rate of a smaller batch
constexpr int kPatience = 2;              // consecutive sizes that are not worthwhile
constexpr double kShareOfMemory = 0.8;    // of the free memory

/// Returns the memory after the next doubling, if memory grows linearly with the batch.
double expected_memory(const BatchTrial& half, const BatchTrial& last) {
  return last.memory_bytes + 2 * std::max(0.0, last.memory_bytes - half.memory_bytes);
}

class BatchSearch {
 public:
  BatchSearch(double memory_bytes, const TryBatch& try_batch)
      : memory_bytes_(memory_bytes), try_batch_(try_batch) {}

  BatchChoice run() {
    while (choice_.why.empty() && !choice_.failure) step();
    return choice_;
  }

 private:
  void step() {
    const std::int64_t next = tried_ == 0 ? spec::BatchSize::kSmallest : 2 * tried_;
    const std::string size = with_thousands(next);
    if (last_ && next > last_->max_batch)
      return stop(
          fmt::format("a batch of {} leaves fewer than {} steps per epoch", size, kFewestSteps));
    if (half_ && memory_bytes_ > 0 && expected_memory(*half_, *last_) > memory_bytes_)
      return stop(fmt::format("a batch of {} would need about {} of memory, and the limit is {}",
                              size, human_bytes(expected_memory(*half_, *last_)),
                              human_bytes(memory_bytes_)));
    const BatchResult result = try_batch_(next);
    if (const auto* failure = std::get_if<report::TrialFailure>(&result))
      return fail(next, *failure);
    take(next, std::get<BatchTrial>(result));
  }

  void take(std::int64_t batch, const BatchTrial& trial) {
    tried_ = batch;
    half_ = std::exchange(last_, trial);
    if (choice_.batch > 0 && trial.samples_per_s < kWorthwhileRate * rate_)
      return note_slow_size(trial);
    slow_sizes_.clear();
    choice_.batch = batch;
    rate_ = trial.samples_per_s;
  }

  /// Counts a size that is hardly faster. One such size may be slow by chance or because of its
  /// shape.
  void note_slow_size(const BatchTrial& trial) {
    slow_sizes_.push_back(fmt::format("{:.2f}x with a batch of {}", trial.samples_per_s / rate_,
                                      with_thousands(tried_)));
    if (slow_sizes_.size() < kPatience) return;
    stop(fmt::format("larger batches hardly raise throughput: {}", fmt::join(slow_sizes_, ", ")));
  }

  void fail(std::int64_t batch, const report::TrialFailure& failure) {
    const bool refused = failure.exit_code == static_cast<int>(ErrorKind::resource);
    if (!last_ || (!refused && !failure.killed)) {
      choice_.failure = failure;
    } else if (refused && failure.message.find("out of memory") == std::string::npos) {
      stop(fmt::format("a batch of {} does not run: {}", with_thousands(batch),
                       one_line(failure.message)));
    } else {
      stop(fmt::format("a batch of {} does not fit in memory", with_thousands(batch)));
    }
  }

  void stop(const std::string& why) { choice_.why = why; }

  double memory_bytes_;
  const TryBatch& try_batch_;
  std::int64_t tried_ = 0;
  std::optional<BatchTrial> half_;
  std::optional<BatchTrial> last_;
  double rate_ = 0;                      // of the choice
  std::vector<std::string> slow_sizes_;  // larger sizes that were hardly faster
  BatchChoice choice_;
};

/// Returns the median of all steps except the first, which is a warmup.
double step_seconds(const std::vector<double>& ends) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < ends.size(); ++i) steps.push_back(ends[i] - ends[i - 1]);
  return std::max(1e-9, median(steps));
}

BatchResult try_batch(std::int64_t batch, const AutoBatchRun& run, const PrintLine& print,
                      const Clock& clock) {
  std::vector<std::string> overrides = batch_trial(batch);
  if (run.request.nodes) overrides.emplace_back("++trainer.num_nodes=1");
  RunRequest request = run.remake_as_trial(overrides);
  request.folder.root = run.request.folder.root / "batch-size";
  request.folder.fixed.reset();
  const BatchResult result = run_batch_trial(request, clock);
  const auto* trial = std::get_if<BatchTrial>(&result);
  print(fmt::format(
      "batch {}  {}", with_thousands(batch),
      trial != nullptr ? report::rate_text(trial->samples_per_s) + " samples/s" : "failed"));
  return result;
}

RunRequest with_batch(std::int64_t batch, const AutoBatchRun& run) {
  RunRequest sized = run.remake({fmt::format("++loader.batch_size={}", batch)});
  sized.nodes = run.request.nodes;
  sized.node_flags = run.request.node_flags;
  sized.any_address = run.request.any_address;
  sized.connect_store = run.request.connect_store;
  return sized;
}

}  // namespace

BatchChoice choose_batch(double memory_bytes, const TryBatch& try_batch) {
  return BatchSearch(memory_bytes, try_batch).run();
}

std::vector<std::string> batch_trial(std::int64_t batch) {
  std::vector<std::string> overrides = short_run(kSteps);
  overrides.push_back(fmt::format("++loader.batch_size={}", batch));
  overrides.emplace_back("++scheduler=constant");
  overrides.emplace_back("++trainer.limit_train_batches=1.0");
  overrides.emplace_back("++trainer.overfit_batches=0");
  return overrides;
}

BatchResult run_batch_trial(const RunRequest& request, const Clock& clock) {
  std::vector<double> ends;
  const RunOutcome run = run_with(
      request, [&](const events::StepLogged& step) { ends.push_back(step.elapsed_s); }, clock);
  if (run.ending.exit_code != 0) return failure_of(run);
  const report::RunRecord& record = run.record;
  const bool has_steps = record.started && !record.epochs.empty() && ends.size() >= 2;
  if (!has_steps)
    return report::TrialFailure{1, "a trial logged no steps; see " + run.folder.string()};
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const std::int64_t a_step = record.started->global_batch * trainer.accumulate_grad_batches;
  const int ranks = record.started->world_size;
  const events::Timing timing = report::sum_timing(record.epochs);
  return BatchTrial{.samples_per_s = static_cast<double>(a_step) / step_seconds(ends),
                    .memory_bytes = timing.rss_mb * (1 << 20) * ranks,
                    .max_batch = record.started->train_samples /
                                 (kFewestSteps * trainer.accumulate_grad_batches * ranks)};
}

double batch_budget(const spec::Trainer& trainer) {
  if (spec::placement_of(trainer, read_machine()).on_gpus) return 0;
  return kShareOfMemory * static_cast<double>(available_memory());
}

RunRequest with_measured_batch(const AutoBatchRun& run, const PrintLine& print,
                               const Clock& clock) {
  const RunRequest& request = run.request;
  const auto before =
      request.resume ? resumed_batch(request.folder, *request.resume) : std::nullopt;
  if (before) return with_batch(*before, run);
  const BatchChoice choice =
      choose_batch(batch_budget(request.loaded.experiment.trainer),
                   [&](std::int64_t batch) { return try_batch(batch, run, print, clock); });
  if (choice.failure)
    throw Error(static_cast<ErrorKind>(choice.failure->exit_code),
                "cannot determine loader.batch_size (auto): " + choice.failure->message);
  print(fmt::format("chose loader.batch_size={} because {}; optimizer.lr was not adjusted",
                    choice.batch, choice.why));
  RunRequest found = with_batch(choice.batch, run);
  found.batch_size_why = choice.why;
  return found;
}

}  // namespace trainctl::study
