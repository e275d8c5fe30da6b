#include "study/preflight/rank_plan.hpp"

#include "spec/load.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;
using namespace trainctl::study;

namespace {

spec::Experiment experiment(const std::string& more) {
  config::Diagnostics diagnostics;
  const std::string text =
      "dataset: { train: { type: synthetic_digits } }\nmodel: linear\n"
      "optimizer: { type: sgd, lr: 0.1 }\n" +
      more;
  return spec::load_experiment_text("test.yaml", text, {}, diagnostics).experiment;
}

constexpr std::int64_t kMiB = 1 << 20;

events::Measured timed() {
  events::Measured model;
  model.device = "cpu";
  model.gradient_bytes = 3 * kMiB;
  model.activation_bytes = 10 * kMiB;
  model.parameter_bytes = {kMiB, kMiB, kMiB};
  model.batch_size = 64;
  model.measured_batches = {16};
  model.step_s = 0.5;
  model.backward_s = 0.25;
  return model;
}

}  // namespace

TEST_CASE("plan_ranks: the last batch of an epoch can be uneven among ranks") {
  const auto fake =
      plan_ranks(experiment("loader: { batch_size: 64 }\ntrainer: { max_epochs: 3 }\n"),
                 {.train = 1000, .val = 203}, 4);
  REQUIRE(fake.splits.size() == 2);
  const report::RankSplit& train = fake.splits[0];
  CHECK(train.batches == 4);
  CHECK(train.last_batch == 1000 - 3 * 256);
  CHECK(train.last_least == 58);
  CHECK(train.last_most == 58);
  CHECK(train.dropped == 0);
  CHECK(fake.steps_per_epoch == 4);
  CHECK(fake.epochs == 3);
  CHECK(fake.steps == 12);
  const report::RankSplit& val = fake.splits[1];
  CHECK(val.batches == 1);
  CHECK(val.last_batch == 203);
  CHECK(val.last_least == 50);
  CHECK(val.last_most == 51);
  REQUIRE(fake.notes.size() == 1);
  CHECK_THAT(fake.notes[0], Contains("val: the last batch does not divide evenly among 4 ranks"));
}

TEST_CASE("plan_ranks: drop_last leaves samples out, a limit on batches does not") {
  const auto dropped = plan_ranks(experiment("loader: { batch_size: 64, drop_last: true }\n"),
                                  {.train = 1000, .val = {}}, 4);
  CHECK(dropped.splits[0].batches == 3);
  CHECK(dropped.splits[0].last_batch == 256);
  CHECK(dropped.splits[0].dropped == 232);
  CHECK(dropped.splits.size() == 1);
  CHECK(dropped.notes.empty());
  const auto limited = plan_ranks(experiment("loader: { batch_size: 64, drop_last: true }\n"
                                             "trainer: { limit_train_batches: 2 }\n"),
                                  {.train = 1000, .val = {}}, 4);
  CHECK(limited.splits[0].batches == 2);
  CHECK(limited.splits[0].last_batch == 256);
  CHECK(limited.splits[0].dropped == 0);
}

TEST_CASE("plan_ranks: notes ranks without a sample and an incomplete accumulation") {
  const auto fake = plan_ranks(experiment("loader: { batch_size: 8 }\n"
                                          "trainer: { accumulate_grad_batches: 2 }\n"),
                               {.train = 259, .val = {}}, 16);
  CHECK(fake.splits[0].batches == 3);
  CHECK(fake.splits[0].last_batch == 3);
  CHECK(fake.splits[0].idle_ranks == 13);
  CHECK(fake.steps_per_epoch == 2);
  REQUIRE(fake.notes.size() == 2);
  CHECK_THAT(fake.notes[0], Contains("13 of 16 ranks"));
  CHECK_THAT(fake.notes[1], Contains("accumulates only 1 of 2 batches"));
}

TEST_CASE("add_model: adds buckets, and gradients if the model was measured on one rank") {
  const auto alone =
      experiment("trainer: { accelerator: cpu, devices: 1 }\ndistributed: { bucket_cap_mb: 2 }\n");
  auto fake = plan_ranks(alone, {.train = 1000, .val = {}}, 4);
  add_model(alone, timed(), fake);
  REQUIRE(fake.buckets.size() == 2);
  CHECK(fake.buckets[0].bytes == 2 * kMiB);
  CHECK(fake.buckets[1].bytes == kMiB);
  CHECK(fake.model->activation_bytes == 13 * kMiB);
  const auto pair = experiment("trainer: { accelerator: cpu, devices: 2 }\n");
  auto exact = plan_ranks(pair, {.train = 1000, .val = {}}, 4);
  add_model(pair, timed(), exact);
  CHECK(exact.model->activation_bytes == 10 * kMiB);
}

TEST_CASE("optimizer_share: a rank of zero1 has the state of whole parameters") {
  events::Measured model = timed();
  model.optimizer_bytes = 6 * kMiB;
  CHECK(optimizer_share(model, 1) == 6 * kMiB);
  CHECK(optimizer_share(model, 2) == 4 * kMiB);
  CHECK(optimizer_share(model, 1024) == 2 * kMiB);
  model.parameter_bytes.clear();
  CHECK(optimizer_share(model, 2) == 6 * kMiB);
  const auto config = experiment("distributed: { type: zero1 }\n");
  auto fake = plan_ranks(config, {.train = 1000, .val = {}}, 2);
  CHECK(fake.shards_optimizer);
  model = timed();
  model.optimizer_bytes = 6 * kMiB;
  add_model(config, model, fake);
  CHECK(fake.optimizer_share == 4 * kMiB);
}

TEST_CASE("synced_step: has the batch size of the run and all accumulated batches") {
  const auto one = synced_step(experiment(""), timed());
  REQUIRE(one.has_value());
  CHECK(one->step_s == Approx(2));
  CHECK(one->backward_s == Approx(1));
  CHECK(one->samples == 64);
  CHECK(one->buckets == std::vector<std::int64_t>{2 * kMiB, kMiB});
  const auto three = synced_step(experiment("trainer: { accumulate_grad_batches: 3 }\n"), timed());
  CHECK(three->step_s == Approx(6));
  CHECK(three->backward_s == Approx(1));
  CHECK(three->samples == 192);
  CHECK(three->batches == 3);
  CHECK(one->exchange == report::SyncKind::gradients);
  const auto local =
      synced_step(experiment("distributed: { type: local_sgd, sync_every: 8 }\n"), timed());
  CHECK(local->exchange == report::SyncKind::weights);
  CHECK(local->every == 8);
  const auto sharded = synced_step(experiment("distributed: { type: zero1 }\n"), timed());
  CHECK(sharded->exchange == report::SyncKind::gradients_and_weights);
  CHECK(sharded->weight_bytes == 3 * kMiB);
  events::Measured untimed = timed();
  untimed.step_s.reset();
  CHECK_FALSE(synced_step(experiment(""), untimed).has_value());
}

TEST_CASE("shared_step: scales the measured step to the run's batch, but not its exchange") {
  events::Measured alone = timed();
  alone.batch_size = 64;
  alone.measured_batches = {8, 16};
  events::Measured shared;
  shared.ranks = 2;
  shared.num_threads = 3;
  shared.measured_batches = {16};
  shared.step_s = 1.2;
  shared.step_rounds_s = {1.3, 1.2, 1.1};
  shared.exposed_s = 0.2;
  const report::SharedStep one = study::shared_step(alone, shared, 1, 0);
  CHECK(one.ranks == 2);
  CHECK(one.num_threads == 3);
  CHECK(one.step_s == Approx(4 * 1.0 + 0.2));
  CHECK(one.exposed_s == Approx(0.2));
  CHECK(one.range.low_s == Approx(4 * 0.9 + 0.2));
  CHECK(one.range.high_s == Approx(4 * 1.1 + 0.2));
  const report::SharedStep three = study::shared_step(alone, shared, 3, 0.05);
  CHECK(three.step_s == Approx(12 * 1.0 + 0.2 + 0.05));
  CHECK(three.exposed_s == Approx(0.25));
}
