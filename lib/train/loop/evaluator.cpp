#include "train/loop/evaluator.hpp"

#include "base/error.hpp"
#include "base/machine/host_waits.hpp"
#include "device/host_read.hpp"
#include "train/measure/sample_grid.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reflection_pad2d.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace trainctl::train {
namespace {

constexpr const char* kPlace = "metrics of an epoch";  // of the host waits

/// Gathers one-dimensional tensors, whose lengths may differ between ranks, in the order of ranks.
std::vector<at::Tensor> gather_of_any_length(dist::Communicator& communicator,
                                             const at::Tensor& tensor, const std::string& what) {
  const at::Tensor length = at::full({1}, tensor.numel(), tensor.options().dtype(at::kLong));
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& each : communicator.all_gather(length, what))
    lengths.push_back(device::value_of<std::int64_t>(each, kPlace));
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const at::Tensor padded = at::zeros({longest}, tensor.options());
  padded.narrow(0, 0, tensor.numel()).copy_(tensor);
  std::vector<at::Tensor> all = communicator.all_gather(padded, what);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    all[rank] = all[rank].narrow(0, 0, lengths[rank]);
  return all;
}

void join_over_ranks(stage::Metric& metric, dist::Communicator& communicator,
                     const std::string& what) {
  stage::GrowingMetric* growing = stage::as_growing(metric);
  if (growing == nullptr) {
    communicator.sum(metric.sums(), what);
    return;
  }
  if (communicator.rank_info().world_size == 1) return;
  const std::vector<at::Tensor> parts = gather_of_any_length(communicator, metric.sums(), what);
  growing->reset();
  for (const at::Tensor& part : parts) growing->merge(part);
}

}  // namespace

/// Lends the task the model with test-time augmentation.
class Evaluator::Tools final : public PlainTools {
 public:
  Tools(const Evaluator& evaluator, const data::Batch& loaded)
      : PlainTools(evaluator.on_.model, evaluator.on_.loss, evaluator.forward_,
                   stage::RunMode::evaluate),
        evaluator_(evaluator),
        loaded_(loaded) {}
  at::Tensor forward(const at::Tensor& inputs) override { return evaluator_.logits_of(inputs); }
  stage::BatchSamples samples(const device::DeviceBatch& batch) override {
    return samples_of(evaluator_.on_.loader, loaded_, batch.inputs.size(0));
  }

 private:
  const Evaluator& evaluator_;
  const data::Batch& loaded_;
};

Evaluator::Evaluator(Evaluation evaluation, const Options& options)
    : on_(std::move(evaluation)),
      device_(options.device),
      forward_(options.forward),
      augmentation_(options.test_time_augmentation),
      feed_(make_feed(on_, options)) {
  if (!augmentation_) return;
  const std::vector<std::int64_t> shape = data::roles_of(on_.loader.layout()).input_shape;
  ENSURE(config, shape.size() == 3 && augmentation_->translate < std::min(shape[1], shape[2]),
         "trainer.test_time_augmentation requires images that are larger than 'translate', but the "
         "samples have the shape [{}]\nhint: remove test_time_augmentation, or set translate to "
         "less",
         fmt::join(shape, ", "));
}

at::Tensor Evaluator::logits_of(const at::Tensor& inputs) const {
  if (!augmentation_) return forward(on_.model, inputs, forward_);
  const auto mean_over_flips = [&](const at::Tensor& view) {
    const at::Tensor logits = forward(on_.model, view, forward_);
    if (!augmentation_->horizontal_flip) return logits;
    return (logits + forward(on_.model, view.flip(3), forward_)) / 2;
  };
  const at::Tensor logits = mean_over_flips(inputs);
  const std::int64_t pixels = augmentation_->translate;
  if (pixels == 0) return logits;
  const at::Tensor padded = at::reflection_pad2d(inputs, {pixels, pixels, pixels, pixels});
  const auto moved = [&](std::int64_t first) {
    const at::Tensor rows = padded.narrow(2, first, inputs.size(2));
    return mean_over_flips(rows.narrow(3, first, inputs.size(3)).contiguous());
  };
  return logits / 2 + (moved(0) + moved(2 * pixels)) / 4;
}

Evaluation evaluation_of(const Session& session, data::Loader& loader, std::string split) {
  return {.model = session.model,
          .loss = session.loss,
          .metrics = session.metrics,
          .loader = loader,
          .split = std::move(split),
          .batch_size = session.batch_size,
          .communicator = session.communicator,
          .make_feed = session.make_feed,
          .task = session.task};
}

std::unique_ptr<device::Feed> make_feed(const Evaluation& on, const Options& options) {
  device::FeedOptions with{.layout = on.loader.layout(),
                           .normalization = on.loader.normalization(),
                           .max_rows = on.batch_size,
                           .classes = on.loader.classes(),
                           .ignored_label = on.loss.ignored_label(),
                           .in_flight = on.loader.in_flight(),
                           .held = on.loader.held()};
  if (options.pin_memory) with.ring = on.loader.memory();
  return on.make_feed(options.device, with);
}

std::optional<events::Metrics> Evaluator::run(std::optional<std::int64_t> limit, const Watch& watch,
                                              const Outputs& outputs) {
  const EvaluationMode mode(on_.model);
  for (const auto& metric : on_.metrics) metric->reset();
  LossMeter meter(device_);
  const std::int64_t all = on_.loader.batches_per_epoch();
  const std::int64_t batches = std::min(limit.value_or(all), all);
  feed_->drain();
  on_.loader.start_epoch(runs_++);
  for (std::int64_t i = 0; i < batches; ++i) {
    const data::Batch& loaded = *on_.loader.next();
    const device::DeviceBatch& batch = feed_->put(loaded);
    {
      const c10::InferenceMode guard;
      at::Tensor logits;
      if (on_.labeled) {
        Tools tools(*this, loaded);
        const stage::TaskResult result = on_.task.step(batch, tools);
        logits = result.outputs;
        meter.add(result.loss, batch.valid);
        if (i == 0 && on_.communicator.rank_info().rank == 0)
          drawing_ = draw_masks(on_.task.masks(result), result.batch, on_.loader.normalization());
        if (batch.valid > 0) update_metrics(on_.metrics, on_.loss, logits, result.batch.targets);
      } else {
        const bool masked =
            data::roles_of(on_.loader.layout()).kind.targets == spec::Targets::pixels;
        const std::int64_t channels = batch.inputs.size(1) - (masked ? 1 : 0);
        logits = logits_of(masked ? batch.inputs.narrow(1, 0, channels) : batch.inputs);
      }
      if (batch.valid > 0 && outputs) outputs(loaded, logits);
    }
    if (!watch(i)) {
      --runs_;  // the next call repeats this run
      return std::nullopt;
    }
  }
  if (!on_.labeled) return events::Metrics();
  tables_ = collect_tables(on_);
  return collect_metrics(on_, meter);
}

std::vector<events::TableRow> collect_tables(const Evaluation& on) {
  std::vector<events::TableRow> rows;
  for (const auto& metric : on.metrics) {
    const std::int64_t count = metric->table_rows();
    if (count == 0) continue;
    const std::string name = on.split + "/" + metric->name();
    on.communicator.sum(metric->sums(), name);
    const at::Tensor table =
        device::copy_to_host(metric->sums(), kPlace).to(at::kLong).view({count, -1});
    for (std::int64_t row = 0; row < count; ++row) {
      const auto* counts = table.const_data_ptr<std::int64_t>() + row * table.size(1);
      rows.push_back({name, 0, row, {counts, counts + table.size(1)}});
    }
    metric->reset();
  }
  return rows;
}

events::Metrics collect_metrics(const Evaluation& on, const LossMeter& meter) {
  const at::Tensor sums = at::empty({2}, at::kDouble);
  auto* values = sums.mutable_data_ptr<double>();
  values[0] = meter.total();
  values[1] = meter.weight();
  on.communicator.sum(sums, on.split + "/loss");
  ENSURE(data, values[1] > 0,
         "cannot compute {}/loss: loss.weight gives every sample the weight 0\nhint: give a class "
         "of the data a weight above 0",
         on.split);
  events::Metrics metrics{{on.split + "/loss", mean_loss(values[0], values[1])}};
  for (const auto& metric : on.metrics) {
    if (metric->table_rows() > 0) continue;
    const std::string name = on.split + "/" + metric->name();
    join_over_ranks(*metric, on.communicator, name);
    if (!metric->sums().is_cpu()) count_host_wait(kPlace);
    metrics.emplace_back(name, metric->value());
    metric->reset();
  }
  return metrics;
}

}  // namespace trainctl::train
