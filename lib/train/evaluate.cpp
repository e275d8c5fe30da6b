#include "train/evaluate.hpp"

#include "base/error.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace trainctl::train {
namespace {

/// Dropout and the like are off while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(stage::Model& model) : model_(model) {
    model_.set_mode(stage::RunMode::evaluate);
  }
  ~EvaluationMode() { model_.set_mode(stage::RunMode::train); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  stage::Model& model_;
};

}  // namespace

Evaluator::Evaluator(const Session& session, const Options& options)
    : session_(session),
      device_(options.device),
      feed_(make_feed(*session.validation, session, options)) {}

std::unique_ptr<device::Feed> make_feed(const data::Loader& loader, const Session& session,
                                        const Options& options) {
  return device::make_feed(options.device, {.layout = loader.layout(),
                                            .normalization = loader.normalization(),
                                            .max_rows = session.batch_size,
                                            .classes = loader.classes(),
                                            .pin_memory = options.pin_memory,
                                            .held = loader.held()});
}

std::optional<events::Metrics> Evaluator::run(std::optional<std::int64_t> limit,
                                              const Watch& watch) {
  const EvaluationMode mode(session_.model);
  for (const auto& metric : session_.metrics) metric->reset();
  LossMeter meter(device_);
  const std::int64_t batches = std::min(limit.value_or(session_.validation->batches_per_epoch()),
                                        session_.validation->batches_per_epoch());
  session_.validation->start_epoch(runs_++);
  for (std::int64_t i = 0; i < batches; ++i) {
    const device::DeviceBatch& batch = feed_->put(*session_.validation->next());
    {
      const c10::InferenceMode guard;
      const at::Tensor logits = session_.model.forward(batch.inputs);
      meter.add(session_.loss.forward(logits, batch.targets), batch.valid);
      if (batch.valid > 0) {
        for (const auto& metric : session_.metrics) metric->update(logits, batch.targets);
      }
    }
    if (!watch(i)) return std::nullopt;
  }
  return collect_metrics(session_, meter, "val");
}

events::Metrics collect_metrics(const Session& session, const LossMeter& meter,
                                const std::string& split) {
  const at::Tensor sums = at::empty({2}, at::kDouble);
  auto* values = sums.mutable_data_ptr<double>();
  values[0] = meter.total();
  values[1] = meter.weight();
  session.communicator.sum(sums, split + "/loss");
  ENSURE(data, values[1] > 0,
         "{}/loss: loss.weight leaves no sample that counts; give a class that is in the data a "
         "weight above 0",
         split);
  events::Metrics metrics{{split + "/loss", mean_loss(values[0], values[1])}};
  for (const auto& metric : session.metrics) {
    const std::string name = split + "/" + metric->name();
    session.communicator.sum(metric->sums(), name);
    metrics.emplace_back(name, metric->value());
    metric->reset();
  }
  return metrics;
}

}  // namespace trainctl::train
