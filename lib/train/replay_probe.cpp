#include "train/replay_probe.hpp"

#include "base/stats.hpp"
#include "train/rng.hpp"
#include "train/step.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace trainctl::train {
namespace {

constexpr double kLeastTraining = 2;  // seconds
constexpr double kShareOfTraining = 0.01;
constexpr double kBudget = 0.5;  // seconds, or the fewest steps
constexpr std::int64_t kWarmUps = 2;
constexpr std::int64_t kFewest = 5;  // that are timed
constexpr std::int64_t kMost = 50;
constexpr double kLongest = 2;  // seconds, whatever the steps take

/// What a forward pass changes beside its outputs.
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
    } catch (...) {  // all that counts is written
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

/// The last batch of an epoch may have fewer rows than all others.
device::DeviceBatch filled_up(const device::DeviceBatch& batch, std::int64_t rows) {
  const at::Tensor again = at::arange(rows, at::kLong).remainder(batch.valid);
  const auto repeated = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.index_select(0, again) : tensor;
  };
  return {.inputs = repeated(batch.inputs),
          .targets = repeated(batch.targets),
          .targets_b = repeated(batch.targets_b),
          .lambda = repeated(batch.lambda),
          .valid = rows,
          .global_valid = rows};
}

void take_step(const Session& session, const ForwardOptions& options,
               const device::DeviceBatch& batch) {
  const at::Tensor logits = forward(session.model, batch.inputs, options);
  const stage::LossValue loss =
      batch.lambda.defined()
          ? session.loss.forward_mixed(logits, {batch.targets, batch.targets_b, batch.lambda})
          : session.loss.forward(logits, batch.targets);
  loss.value.backward();
}

bool is_stopped(const Session& session) {
  return session.stop_signal != nullptr && *session.stop_signal != 0;
}

/// It lives: the supervisor counts the seconds since the last stamp.
void stamp(const Session& session) {
  events::Heartbeat* page = session.heartbeat;
  if (page != nullptr) page->stamp(events::Phase::shutdown, page->global_step.load());
}

std::optional<ReplayedBatch> timed(const Session& session, const ReplayBatch& replay) {
  session.train.rest();
  if (session.validation != nullptr) session.validation->rest();
  const device::DeviceBatch batch = filled_up(replay.batch, session.batch_size);
  session.model.set_mode(stage::RunMode::train);
  KeptState kept(session.model);
  std::vector<double> seconds;
  const double until = session.clock.now() + kLongest;
  double ended = 0;
  for (std::int64_t i = 0; i < replay.steps && ended < until; ++i) {
    if (is_stopped(session)) return std::nullopt;
    stamp(session);
    kept.drop_gradients();
    const double begun = session.clock.now();
    take_step(session, replay.forward, batch);
    ended = session.clock.now();
    if (i >= kWarmUps) seconds.push_back(ended - begun);
  }
  if (seconds.empty()) return std::nullopt;
  return ReplayedBatch{median(seconds), static_cast<std::int64_t>(seconds.size())};
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

std::optional<ReplayedBatch> replay_batch(const Session& session, const ReplayBatch& replay) {
  if (replay.batch.valid <= 0 || replay.steps <= kWarmUps) return std::nullopt;
  try {
    return timed(session, replay);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace trainctl::train
