#include "study/preflight/rank_plan.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "spec/experiment/distributed.hpp"

#include <cmath>
#include <numeric>

namespace trainctl::study {
namespace {

report::RankSplit split_of(std::string name, std::int64_t samples, std::int64_t batches,
                           std::pair<std::int64_t, int> batch_and_ranks) {
  const auto [batch, ranks] = batch_and_ranks;
  const std::int64_t global = batch * ranks;
  report::RankSplit split{.name = std::move(name), .samples = samples, .batches = batches};
  if (batches == 0) return split;
  split.last_batch = std::min(global, samples - (batches - 1) * global);
  split.last_least = split.last_batch / ranks;
  split.last_most = (split.last_batch + ranks - 1) / ranks;
  split.idle_ranks = std::max<std::int64_t>(0, ranks - split.last_batch);
  return split;
}

void note_last_batches(report::FakeRanks& fake) {
  for (const report::RankSplit& split : fake.splits) {
    if (split.idle_ranks > 0) {
      fake.notes.push_back(
          fmt::format("{}: the last batch has only {} sample(s), so {} of {} ranks repeat a sample "
                      "with weight 0",
                      split.name, split.last_batch, split.idle_ranks, fake.ranks));
    } else if (split.last_least != split.last_most) {
      fake.notes.push_back(fmt::format(
          "{}: the last batch does not divide evenly among {} ranks; all samples still have the "
          "same weight",
          split.name, fake.ranks));
    }
  }
}

void note_accumulation(const spec::Experiment& experiment, report::FakeRanks& fake) {
  if (fake.splits.empty() || fake.splits.front().batches == 0) return;
  const std::int64_t rest =
      fake.splits.front().batches % experiment.trainer.accumulate_grad_batches;
  if (rest > 0)
    fake.notes.push_back(
        fmt::format("train: the last step of an epoch accumulates only {} of {} batches", rest,
                    experiment.trainer.accumulate_grad_batches));
}

report::SyncKind sync_kind_of(spec::Strategy type) {
  switch (type) {
    case spec::Strategy::zero1: return report::SyncKind::gradients_and_weights;
    case spec::Strategy::local_sgd: return report::SyncKind::weights;
    default: return report::SyncKind::gradients;
  }
}

}  // namespace

report::FakeRanks plan_ranks(const spec::Experiment& experiment, const EpochSamples& samples,
                             int ranks) {
  const std::int64_t batch = experiment.loader.batch_size;
  report::FakeRanks fake{.ranks = ranks,
                         .batch_size = batch,
                         .accumulate = experiment.trainer.accumulate_grad_batches,
                         .shards_optimizer = experiment.distributed.type == spec::Strategy::zero1};
  const spec::RunLength length = spec::schedule_length(experiment, samples.train, ranks);
  fake.steps_per_epoch = length.steps_per_epoch;
  fake.epochs = length.known_epochs();
  fake.steps = length.steps;
  const std::int64_t batches = spec::train_batches(experiment, samples.train, ranks);
  report::RankSplit train = split_of("train", samples.train, batches, {batch, ranks});
  const bool ends_early = batches < samples.train / (batch * ranks);
  if (experiment.loader.drop_last && !ends_early) train.dropped = samples.train % (batch * ranks);
  fake.splits.push_back(std::move(train));
  if (samples.val) {
    const std::int64_t all = (*samples.val + batch * ranks - 1) / (batch * ranks);
    fake.splits.push_back(split_of("val", *samples.val,
                                   experiment.trainer.limit_val_batches.of(all), {batch, ranks}));
  }
  note_last_batches(fake);
  note_accumulation(experiment, fake);
  return fake;
}

void add_model(const spec::Experiment& experiment, const events::Measured& model,
               report::FakeRanks& fake) {
  fake.model = model;
  fake.optimizer_share = optimizer_share(model, fake.ranks);
  const bool as_one = spec::placement_of(experiment.trainer, read_machine()).ranks == 1 &&
                      experiment.trainer.accumulate_grad_batches == 1;
  if (as_one && fake.ranks > 1) {
    fake.model->activation_bytes += model.gradient_bytes;
    fake.notes.emplace_back(
        "the model was measured on one rank; several ranks keep their gradients during the forward "
        "pass, so the estimate adds the size of all gradients, and is too high");
  }
  const auto cap = static_cast<std::int64_t>(experiment.distributed.bucket_cap_mb * (1 << 20));
  for (const spec::Bucket& bucket : spec::bucket_layout(model.parameter_bytes, cap))
    fake.buckets.push_back({bucket.parameters, bucket.bytes});
}

std::int64_t optimizer_share(const events::Measured& model, int ranks) {
  const std::vector<std::int64_t>& bytes = model.parameter_bytes;
  const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  if (all == 0) return model.optimizer_bytes;
  const double share =
      static_cast<double>(spec::largest_share(bytes, ranks)) / static_cast<double>(all);
  return std::llround(share * static_cast<double>(model.optimizer_bytes));
}

std::vector<std::int64_t> bucket_bytes(const spec::Experiment& experiment,
                                       const events::Measured& model) {
  const spec::Distributed& distributed = experiment.distributed;
  // With 16-bit compression half of the bytes are sent. The size for powersgd depends on the
  // shapes; the uncompressed size is an upper bound.
  const bool halves = distributed.compression == spec::Compression::bf16 ||
                      distributed.compression == spec::Compression::fp16;
  const auto cap = static_cast<std::int64_t>(distributed.bucket_cap_mb * (1 << 20));
  std::vector<std::int64_t> bytes;
  for (const spec::Bucket& bucket : spec::bucket_layout(model.parameter_bytes, cap))
    bytes.push_back(halves ? bucket.bytes / 2 : bucket.bytes);
  return bytes;
}

std::optional<report::SyncedStep> synced_step(const spec::Experiment& experiment,
                                              const events::Measured& model) {
  if (!model.step_s || !model.backward_s || model.measured_batches.empty()) return std::nullopt;
  const double batches =
      static_cast<double>(model.batch_size) / static_cast<double>(model.measured_batches.back());
  const std::int64_t accumulated = experiment.trainer.accumulate_grad_batches;
  const auto& weights = model.parameter_bytes;
  return report::SyncedStep{
      .step_s = *model.step_s * batches * static_cast<double>(accumulated),
      .backward_s = *model.backward_s * batches,
      .samples = model.batch_size * accumulated,
      .buckets = bucket_bytes(experiment, model),
      .batches = accumulated,
      .exchange = sync_kind_of(experiment.distributed.type),
      .weight_bytes = std::accumulate(weights.begin(), weights.end(), std::int64_t{0}),
      .every = experiment.distributed.sync_every.value_or(1)};
}

report::SharedStep shared_step(const events::Measured& alone, const events::Measured& shared,
                               std::int64_t accumulated, double averaging_s) {
  ASSERT(!shared.measured_batches.empty());
  const double batches = static_cast<double>(alone.batch_size * accumulated) /
                         static_cast<double>(shared.measured_batches.back());
  const double waits = shared.exposed_s.value_or(0);
  const auto of_run = [&](double seconds) {
    return std::max(seconds - waits, 0.0) * batches + waits + averaging_s;
  };
  const double step_s = shared.step_s.value_or(0);
  double low = step_s;
  double high = step_s;
  for (const double round_s : shared.step_rounds_s) {
    low = std::min(low, round_s);
    high = std::max(high, round_s);
  }
  return {.ranks = shared.ranks,
          .step_s = of_run(step_s),
          .exposed_s = waits + averaging_s,
          .range = {of_run(low), of_run(high)},
          .num_threads = shared.num_threads};
}

}  // namespace trainctl::study
