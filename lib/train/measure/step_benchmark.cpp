#include "train/measure/step_benchmark.hpp"

#include "base/machine/machine.hpp"
#include "base/statistics.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <exception>

namespace trainctl::train {
namespace {

constexpr double kLeastTraining = 2;  // seconds
constexpr double kShareOfTraining = 0.01;
constexpr double kBudget = 0.5;  // seconds, unless kFewest steps take longer
constexpr std::int64_t kWarmUps = 2;
constexpr std::int64_t kFewest = 5;  // number of timed steps
constexpr std::int64_t kMost = 50;
constexpr double kLongest = 2;  // seconds, however long the steps take

/// Restores what a forward pass changes in addition to its outputs.
class KeptState {
 public:
  explicit KeptState(stage::Model& model) : model_(model), random_(random_states(at::kCPU)) {
    for (const auto& [name, buffer] : model.buffers()) buffers_.push_back(buffer.clone());
  }
  ~KeptState() {
    try {
      const at::NoGradGuard guard;
      const auto live = model_.buffers();
      for (std::size_t i = 0; i < live.size() && i < buffers_.size(); ++i)
        live[i].tensor.copy_(buffers_[i]);
      set_random_states(at::kCPU, random_);
      for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    } catch (...) {  // nothing more can be done, and all important files are written
    }
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

  void drop_gradients() {
    if (parameters_.empty()) parameters_ = trainable(model_);
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  stage::Model& model_;
  std::vector<stage::NamedTensor> random_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> parameters_;
};

/// Repeats rows, because the last batch of an epoch may be smaller than the others.
device::DeviceBatch filled_up(const device::DeviceBatch& batch, std::int64_t rows) {
  const at::Tensor again = at::arange(rows, at::kLong).remainder(batch.valid);
  device::DeviceBatch filled = device::with_tensors(
      batch, [&](const at::Tensor& tensor) { return tensor.index_select(0, again); });
  filled.valid = filled.global_valid = rows;
  return filled;
}

struct Block {
  const device::DeviceBatch& batch;
  ForwardOptions forward;
  std::int64_t steps = 0;  // maximum, including warm-up steps
  double budget_s = 0;
};

/// Returns the seconds of each step after the warm-up; empty if the run receives a stop request.
std::vector<double> time_block(const Session& session, KeptState& kept, const Block& block) {
  std::vector<double> seconds;
  const double until = session.clock.now() + block.budget_s;
  double ended = 0;
  events::Heartbeat* page = session.heartbeat;
  for (std::int64_t i = 0; i < block.steps && ended < until; ++i) {
    if (session.stop_signal != nullptr && *session.stop_signal != 0) return {};
    // The supervisor limits the seconds since the last heartbeat.
    if (page != nullptr) page->stamp(events::Phase::shutdown, page->global_step.load());
    kept.drop_gradients();
    const double begun = session.clock.now();
    {  // the step ends when its graph has been freed
      PlainTools tools(session.model, session.loss, block.forward);
      session.task.step(block.batch, tools).loss.value.backward();
    }
    ended = session.clock.now();
    if (i >= kWarmUps) seconds.push_back(ended - begun);
  }
  return seconds;
}

class ThreadsScope {
 public:
  explicit ThreadsScope(int threads) : before_(at::get_num_threads()) {
    at::set_num_threads(threads);
  }
  ~ThreadsScope() { at::set_num_threads(before_); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int before_;
};

/// Times the steps with one setting changed at a time. `full` is the run's batch filled up to full
/// size.
void replay_settings(const Session& session, const ReplayBatch& replay,
                     const device::DeviceBatch& full, KeptState& kept, ReplayedBatch& found) {
  // Whether kFewest steps of this duration fit in the budget.
  const auto fits = [&](double step_s) {
    return step_s * static_cast<double>(kFewest + kWarmUps) <= replay.setting_budget_s;
  };
  const auto time = [&](const device::DeviceBatch& batch,
                        const ForwardOptions& forward) -> std::optional<double> {
    const std::vector<double> seconds =
        time_block(session, kept, {batch, forward, kMost + kWarmUps, replay.setting_budget_s});
    return seconds.size() < 3 ? std::nullopt : std::optional(median(seconds));
  };
  const int now = at::get_num_threads();
  const int other = now == session.cores ? 1 : session.cores;
  if (session.cores >= 1 && other != now && fits(found.step_s)) {
    const ThreadsScope threads(other);
    if (const auto step_s = time(full, replay.forward)) found.other_threads = {other, *step_s};
  }
  for (const std::int64_t factor : {8, 4, 2}) {
    if (!fits(found.step_s * static_cast<double>(factor))) continue;
    const std::int64_t rows = factor * session.batch_size;
    if (const auto step_s = time(filled_up(replay.batch, rows), replay.forward))
      found.larger_batch = {rows, *step_s};
    break;
  }
  ForwardOptions bf16 = replay.forward;
  bf16.precision = spec::Precision::bf16_mixed;
  if (replay.has_bf16 && replay.forward.precision == spec::Precision::full && fits(found.step_s)) {
    if (const auto step_s = time(full, bf16)) found.precision = {bf16.precision, *step_s};
  }
}

std::optional<ReplayedBatch> timed(const Session& session, const ReplayBatch& replay) {
  session.train.pause();
  if (session.validation != nullptr) session.validation->pause();
  const device::DeviceBatch batch = filled_up(replay.batch, session.batch_size);
  session.model.set_mode(stage::RunMode::train);
  KeptState kept(session.model);
  const std::vector<double> seconds =
      time_block(session, kept, {batch, replay.forward, replay.steps, kLongest});
  if (seconds.empty()) return std::nullopt;
  ReplayedBatch found{median(seconds), static_cast<std::int64_t>(seconds.size())};
  try {
    if (replay.setting_budget_s > 0) replay_settings(session, replay, batch, kept, found);
  } catch (const std::exception&) {  // a larger batch may not fit in memory; the other results stay
                                     // valid
  }
  return found;
}

}  // namespace

std::int64_t ReplayCost::steps() const {
  if (batches <= 0 || !(passes_s > 0) || training_s < kLeastTraining) return 0;
  const double each_s = passes_s / static_cast<double>(batches);
  const double least_s = static_cast<double>(kFewest + kWarmUps) * each_s;
  const double most_s = kShareOfTraining * training_s;
  if (least_s > std::min(most_s, kLongest)) return 0;
  const double budget_s = std::min(most_s, std::max(kBudget, least_s));
  const double fitting = std::min(budget_s / each_s, static_cast<double>(kMost + kWarmUps));
  return std::max(static_cast<std::int64_t>(fitting), kFewest + kWarmUps);
}

double ReplayCost::setting_budget_s() const {
  return steps() == 0 ? 0 : std::min(kShareOfTraining * training_s, kLongest);
}

std::optional<ReplayedBatch> replay_batch(const Session& session, const ReplayBatch& replay) {
  if (replay.batch.valid <= 0 || replay.steps <= kWarmUps) return std::nullopt;
  try {
    return timed(session, replay);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void StepBenchmark::on_epoch_report(LoopState& state) {
  const events::Timing& timing = state.report.timing;
  cost_.training_s += timing.wall_s;
  cost_.passes_s += timing.forward_s + timing.backward_s;
}

/// Replays the steps without the checks of detect_anomaly.
void StepBenchmark::on_run_end(LoopState& state) {
  if (state.stop == Stop::signal || state.last_batch == nullptr || step_.records()) return;
  cost_.batches = state.batches;
  const std::int64_t steps = cost_.steps();
  if (steps == 0) return;
  const bool has_bf16 = std::ranges::any_of(
      read_machine().cpu_features,
      [](const std::string& feature) { return feature == "avx512_bf16" || feature == "amx_bf16"; });
  step_.stop_watching();
  const auto replayed = replay_batch(session_, {.batch = *state.last_batch,
                                                .forward = options_.forward,
                                                .steps = steps,
                                                .setting_budget_s = cost_.setting_budget_s(),
                                                .has_bf16 = has_bf16});
  if (!replayed) return;
  events::Finished& finished = state.finished;
  finished.replay_step_s = replayed->step_s;
  finished.replay_steps = replayed->steps;
  if (const auto& larger = replayed->larger_batch) {
    finished.larger_batch = larger->value;
    finished.larger_batch_step_s = larger->step_s;
  }
  if (const auto& threads = replayed->other_threads) {
    finished.other_threads = threads->value;
    finished.other_threads_step_s = threads->step_s;
  }
  if (replayed->precision) finished.bf16_step_s = replayed->precision->step_s;
}

}  // namespace trainctl::train
