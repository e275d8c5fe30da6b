#include "train/loop/train_loop.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/cache/device_cache.hpp"
#include "data/host_images.hpp"
#include "data/transform_of.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"
#include "support/manual_clock.hpp"
#include "train/fake_run.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

double sum_of(const events::Timing& timing) {
  double sum = 0;
  for (const events::TimingPhase& phase : events::kTimingPhases) sum += timing.*phase.seconds;
  return sum;
}

/// Returns the mean loss of the initial weights over all samples.
double loss_of_all(const FakeImages& images, FakeModel& model) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(images.size()) * 6);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(images.size()));
  std::vector<std::int64_t> indices(labels.size());
  std::iota(indices.begin(), indices.end(), 0);
  const std::array rows{std::as_writable_bytes(std::span(pixels)),
                        std::as_writable_bytes(std::span(labels))};
  images.fill(indices, rows);
  const torch::NoGradGuard guard;
  const at::Tensor logits =
      model.forward(torch::tensor(pixels).view({-1, 1, 2, 3}).to(torch::kFloat) / 255);
  return at::cross_entropy_loss(logits, torch::tensor(labels)).item<double>();
}

/// Returns the mean loss of the initial weights over a mixed epoch, and the last batch's own
/// labels.
std::pair<double, at::Tensor> loss_of_mixed(data::Loader& loader, FakeModel& model) {
  const torch::NoGradGuard guard;
  double sum = 0;
  at::Tensor last;
  loader.start_epoch(0);
  while (const data::Batch* batch = loader.next()) {
    const auto rows = [&](std::size_t field, at::ScalarType type) {
      void* bytes = const_cast<std::byte*>(batch->fields[field].data());
      return torch::from_blob(bytes, {batch->valid, type == torch::kByte ? 6 : 1}, type).clone();
    };
    const at::Tensor logits = model.forward(rows(0, torch::kByte).to(torch::kFloat) / 255);
    const at::Tensor log_p = logits.log_softmax(1);
    last = rows(1, torch::kLong);
    const at::Tensor lambda = rows(3, torch::kFloat);
    sum -= (lambda * log_p.gather(1, last)).sum().item<double>();
    sum -= ((1 - lambda) * log_p.gather(1, rows(2, torch::kLong))).sum().item<double>();
  }
  return {sum / static_cast<double>(loader.samples()), last.flatten()};
}

/// Copies batches late, like a GPU: until drain(), it needs the last LoaderOptions::in_flight.
class LateFeed final : public device::Feed {
 public:
  LateFeed(const device::FeedOptions& options, int& drains)
      : feed_(device::make_feed(at::kCPU, options)),
        most_(static_cast<std::size_t>(options.in_flight)),
        drains_(drains) {}

  const device::DeviceBatch& put(const data::Batch& batch) override {
    if (batch.index == 0) CHECK(late_.empty());
    late_.emplace_back(batch.fields, hash_of(batch.fields));
    if (late_.size() > most_) late_.pop_front();
    return feed_->put(batch);
  }
  void drain() override {
    for (const auto& [fields, hash] : late_) CHECK(hash_of(fields) == hash);
    late_.clear();
    ++drains_;
  }

 private:
  using Fields = std::vector<std::span<const std::byte>>;
  static std::string hash_of(const Fields& fields) {
    Hasher hasher;
    for (const auto& field : fields) hasher.add(field);
    return hasher.hex();
  }

  std::unique_ptr<device::Feed> feed_;
  std::size_t most_;
  int& drains_;
  std::deque<std::pair<Fields, std::string>> late_;
};

}  // namespace

TEST_CASE("TrainLoop: a feed that copies late is drained before the loader restarts its ring") {
  FakeRun run;
  const auto with_ring = [](std::int64_t samples) {
    return std::make_unique<data::Loader>(
        data::Pipeline{.dataset = std::make_shared<FakeImages>(samples)},
        data::LoaderOptions{.batch_size = 4, .num_workers = 1, .in_flight = 2});
  };
  run.train = with_ring(20);
  run.validation = with_ring(12);
  run.options.max_epochs = 3;
  int drains = 0;
  run.make_feed = [&drains](at::Device, const device::FeedOptions& options) {
    CHECK(options.in_flight == 2);
    return std::make_unique<LateFeed>(options, drains);
  };
  run.run();
  CHECK(drains == 2 * 3);  // for training and validation of each epoch
}

TEST_CASE("TrainLoop: an epoch uses each sample once and reports the mean loss over samples") {
  FakeRun run({.samples = 10, .batch = 4, .val_samples = 7});
  run.options.max_epochs = 2;
  run.scheduler.rate = 0;  // the weights do not change
  const double expected = loss_of_all(FakeImages(10), run.model);
  const double expected_val = loss_of_all(FakeImages(7), run.model);
  const events::Finished finished = run.run();

  const auto epochs = run.all<events::EpochEnded>();
  REQUIRE(epochs.size() == 2);
  CHECK(epochs[1].epoch == 1);
  CHECK(epochs[1].global_step == 6);
  CHECK(epochs[1].metrics[0].first == "train/loss");
  CHECK(value_of(epochs[1], "train/loss") == Approx(expected));
  CHECK(value_of(epochs[1], "train/rows") == 10);
  CHECK(value_of(epochs[1], "val/loss") == Approx(expected_val));
  CHECK(value_of(epochs[1], "val/rows") == 7);
  CHECK(epochs[0].timing.samples == 10);
  CHECK(epochs[0].data_digest != epochs[1].data_digest);
  CHECK(finished.epochs == 2);
  CHECK(finished.global_step == 6);
  CHECK(finished.stop_reason == "max_epochs");
  CHECK(run.model.mode == stage::RunMode::train);
}

TEST_CASE("mixup: the loss uses both labels, metrics the row's own, and validation is not mixed") {
  FakeRun run({.samples = 22, .batch = 8, .val_samples = 7, .mixup_alpha = 1});
  run.scheduler.rate = 0;
  const auto [expected, own] = loss_of_mixed(*run.train_loader(), run.model);
  const double expected_val = loss_of_all(FakeImages(7), run.model);
  at::Tensor counted;
  run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call == 3) counted = run.metric().last_targets;  // the validation's first call
    return loss;
  };
  run.run();
  const auto epochs = run.all<events::EpochEnded>();
  CHECK(value_of(epochs[0], "train/loss") == Approx(expected));
  CHECK(value_of(epochs[0], "val/loss") == Approx(expected_val));
  CHECK(torch::equal(counted, own));
}

TEST_CASE("TrainLoop: training lowers the loss, and the same run twice is bitwise equal") {
  std::vector<std::string> digests;
  for (int repeat = 0; repeat < 2; ++repeat) {
    FakeRun run;
    run.options.max_epochs = 5;
    const events::Finished finished = run.run();
    const auto epochs = run.all<events::EpochEnded>();
    CHECK(value_of(epochs.back(), "train/loss") < value_of(epochs.front(), "train/loss"));
    digests.push_back(finished.parameter_digest + finished.data_digest);
  }
  CHECK(digests[0] == digests[1]);
}

TEST_CASE("TrainLoop: images cached on the device give equal weights and no data digest") {
  const data::testing::HostDevice device;
  const auto flip = data::testing::transform_of("random_horizontal_flip",
                                                spec::transform::RandomHorizontalFlip{});
  const auto trained = [&](bool cached) {
    FakeRun run;
    run.options.max_epochs = 3;
    data::Pipeline train{.dataset = std::make_shared<FakeImages>(20), .transforms = {flip}};
    data::Pipeline validation{.dataset = std::make_shared<FakeImages>(8)};
    if (cached) train = data::hold_images(train, device);
    if (cached) validation = data::hold_images(validation, device);
    run.train = run.loader(train, data::Order::shuffled);
    run.validation = run.loader(validation, data::Order::sequential);
    const events::Finished finished = run.run();
    CHECK(finished.data_digest.empty() == cached);
    for (const auto& epoch : run.all<events::EpochEnded>())
      CHECK(epoch.data_digest.empty() == cached);
    return finished.parameter_digest +
           fmt::format("{}", value_of(run.all<events::EpochEnded>().back(), "val/loss"));
  };
  CHECK(trained(true) == trained(false));
}

TEST_CASE("accumulate_grad_batches: small batches equal one large batch, also at an uneven end") {
  FakeRun large({.samples = 22, .batch = 6, .val_samples = 0});
  FakeRun small({.samples = 22, .batch = 2, .val_samples = 0});
  small.options.accumulate = 3;
  large.options.max_epochs = small.options.max_epochs = 3;
  large.run();
  small.run();
  CHECK(small.optimizer.steps == large.optimizer.steps);
  CHECK(mismatch(small.model.weight, large.model.weight) == "");
  CHECK(mismatch(small.model.bias, large.model.bias) == "");
}

TEST_CASE("class weights: the result does not depend on how a global batch is split") {
  const bool has_zero_weights = GENERATE(false, true);
  const at::Tensor weight =
      has_zero_weights ? torch::tensor({0.0F, 0.0F, 3.0F}) : torch::tensor({20.0F, 1.0F, 0.05F});
  FakeRun large({.samples = 22, .batch = 6, .val_samples = 8});
  FakeRun small({.samples = 22, .batch = 1, .val_samples = 8});
  small.options.accumulate = 6;
  for (FakeRun* run : {&large, &small}) {
    run->loss.class_weight = weight;
    run->options.max_epochs = 3;
    run->options.log_every = 1;
    run->run();
  }
  CHECK(small.optimizer.steps == large.optimizer.steps);
  CHECK(mismatch(small.model.weight, large.model.weight) == "");
  for (const char* name : {"train/loss", "val/loss"}) {
    CHECK(value_of(small.all<events::EpochEnded>()[2], name) ==
          Approx(value_of(large.all<events::EpochEnded>()[2], name)).epsilon(1e-5));
  }
}

TEST_CASE("class weights: a batch whose samples all have the weight 0 is an error") {
  FakeRun run;
  run.loss.class_weight = torch::zeros({3});
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::data);
  CHECK_THAT(error.what(), Contains("loss.weight gives every sample the weight 0"));
}

TEST_CASE("gradient clipping: bounds how far a step moves the weights") {
  FakeRun run({.samples = 4, .batch = 4, .val_samples = 0});
  run.options.clip = 0.01;
  run.scheduler.rate = 1;
  const at::Tensor before = run.model.weight.detach().clone();
  const at::Tensor bias_before = run.model.bias.detach().clone();
  run.run();
  const double moved = std::hypot((run.model.weight - before).norm().item<double>(),
                                  (run.model.bias - bias_before).norm().item<double>());
  CHECK(moved == Approx(0.01).epsilon(1e-3));
}

TEST_CASE(
    "scheduler: momentum is set before each step, and an optimizer without momentum is an error") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.accumulate = 2;
  run.scheduler.cycles = true;
  const Error error = error_of(run);
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("momentum"));
  run.optimizer.with_momentum = true;
  run.run();
  CHECK(run.optimizer.momenta == std::vector<double>{0.5, 0.51, 0.52});
}

TEST_CASE("TrainLoop: the parts of each epoch's time sum to its wall time") {
  FakeRun run;
  run.options.max_epochs = 3;
  run.run();
  for (const auto& epoch : run.all<events::EpochEnded>()) {
    CHECK(sum_of(epoch.timing) == Approx(epoch.timing.wall_s).epsilon(0.02));
    CHECK(epoch.timing.forward_s > 0);
    CHECK(epoch.timing.backward_s > 0);
    CHECK(epoch.timing.optimizer_s > 0);
    CHECK(epoch.timing.eval_s > 0);
    CHECK(epoch.timing.data_wait_s > 0);
    CHECK(epoch.timing.rss_mb > 0);
  }
}

TEST_CASE(
    "check_val_every_n_epoch: validation and the plateau scheduler run only in those epochs") {
  FakeRun run;
  run.options.max_epochs = 5;
  run.options.validate_every = 2;
  run.scheduler.watched = "val/loss";
  run.run();
  const auto epochs = run.all<events::EpochEnded>();
  CHECK(std::isnan(value_of(epochs[0], "val/loss")));
  CHECK_FALSE(std::isnan(value_of(epochs[1], "val/loss")));
  CHECK(run.scheduler.seen.size() == 2);
  CHECK(run.scheduler.seen[0] == value_of(epochs[1], "val/loss"));
}

TEST_CASE("val_check_interval: a fraction or a number of steps, and always the end of an epoch") {
  const auto steps_of = [](spec::Limit interval, std::int64_t accumulate) {
    FakeRun run({.samples = 40, .batch = 4});  // ten batches
    run.options.max_epochs = 2;
    run.options.validate_every = 2;  // not in the first epoch
    run.options.accumulate = accumulate;
    run.options.validation_interval = interval;
    run.run();
    CHECK_FALSE(std::isnan(value_of(run.all<events::EpochEnded>().back(), "val/loss")));
    std::vector<std::int64_t> steps;
    for (const auto& one : run.all<events::Validated>()) {
      CHECK(one.epoch == 1);
      CHECK(one.metrics.front().first == "val/loss");
      steps.push_back(one.global_step);
    }
    return steps;
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(steps_of({.fraction = 0.25}, 1) == Steps{12, 14, 16, 18});
  CHECK(steps_of({.batches = 4}, 1) == Steps{14, 18});
  CHECK(steps_of({.batches = 2}, 2) == Steps{7, 9});
  CHECK(steps_of({.batches = 10}, 1).empty());
  CHECK(steps_of({}, 1).empty());
}

TEST_CASE("val_check_interval: validations within an epoch change neither weights nor metrics") {
  FakeRun plain;
  FakeRun often;
  plain.options.max_epochs = often.options.max_epochs = 2;
  often.options.validation_interval = {.batches = 1};
  CHECK(often.run().parameter_digest == plain.run().parameter_digest);
  CHECK(often.all<events::Validated>().size() == 8);
  const auto epochs = often.all<events::EpochEnded>();
  for (std::size_t i = 0; i < epochs.size(); ++i)
    CHECK(epochs[i].metrics == plain.all<events::EpochEnded>()[i].metrics);
}

TEST_CASE("val_check_interval: early stopping ends the epoch, and its validation is not repeated") {
  FakeRun run;
  run.options.validation_interval = {.batches = 2};
  run.options.max_epochs = 3;
  run.has_stopper = true;
  run.stopper.stop_in_epoch = 0;
  run.options.monitor = "val/loss";
  const events::Finished finished = run.run();
  CHECK(finished.stop_reason == "early_stopping");
  CHECK(finished.global_step == 2);
  const auto validated = run.all<events::Validated>();
  REQUIRE(validated.size() == 1);
  REQUIRE(run.all<events::EpochEnded>().size() == 1);
  CHECK(run.all<events::EpochEnded>().front().improved);
  const auto& [name, value] = validated.front().metrics.front();
  CHECK(value_of(run.all<events::EpochEnded>().front(), name) == value);
  CHECK(run.loss.calls == 2 + 2);  // two batches of training, two of the validation
}

TEST_CASE("val_check_interval: the best weights can be those of a step within an epoch") {
  FakeRun run;
  run.options.validation_interval = {.batches = 2};
  run.options.monitor = "val/loss";
  int validated = 0;
  run.loss.after = [&](const at::Tensor& loss, int) {
    if (run.model.mode == stage::RunMode::train) return loss;
    return loss + (validated++ < 2 ? 0 : 1);  // the first validation has two batches
  };
  run.run();
  const auto found = run.all<events::Validated>();
  REQUIRE(found.size() == 2);
  CHECK(found[0].improved);
  CHECK_FALSE(found[1].improved);
  const auto saved = run.all<events::CheckpointSaved>();
  const auto best =
      std::ranges::find(saved, "checkpoints/best.safetensors", &events::CheckpointSaved::path);
  REQUIRE(best != saved.end());
  CHECK(best->global_step == 2);
}

TEST_CASE("num_sanity_val_steps: validation before training does not change the result") {
  FakeRun plain;
  FakeRun checked;
  checked.options.sanity_steps = 1;
  const std::string expected = plain.run().parameter_digest;
  CHECK(checked.run().parameter_digest == expected);
  CHECK(checked.loss.calls == plain.loss.calls + 1);
  CHECK(checked.all<events::EpochEnded>().size() == 1);
}

TEST_CASE("log_every_n_steps: a logged loss is the mean since the last logged step") {
  FakeRun run({.samples = 24, .batch = 4, .val_samples = 0});
  run.options.log_every = 2;
  std::vector<double> losses;
  run.loss.after = [&](const at::Tensor& loss, int) {
    losses.push_back(loss.item<double>());
    return loss;
  };
  run.run();
  const auto logged = run.all<events::StepLogged>();
  REQUIRE(logged.size() == 3);
  CHECK(logged[1].global_step == 4);
  CHECK(logged[1].loss == Approx((losses[2] + losses[3]) / 2));
  CHECK(logged[1].lr == 0.5);
  CHECK(logged[2].elapsed_s > logged[1].elapsed_s);
}

TEST_CASE("TrainLoop: progress is emitted up to five times a second, heartbeats at every step") {
  FakeRun run({.samples = 400, .batch = 4, .val_samples = 0});
  const auto clock = std::make_shared<ManualClock>();
  run.clock = clock;
  run.loss.after = [clock](const at::Tensor& loss, int) {
    clock->advance(0.03);
    return loss;
  };
  run.run();
  const auto reported = run.all<events::Progress>();
  CHECK(reported.size() > 10);
  CHECK(static_cast<double>(reported.size()) <= clock->now() * 5 + 2);
  CHECK(reported.back().loss.has_value());
  CHECK(run.heartbeat.global_step.load() == 100);
}

TEST_CASE("TrainLoop: the heartbeat's phase is startup in the first step, then train") {
  FakeRun run({.samples = 12, .batch = 4, .val_samples = 0});
  std::vector<events::Phase> phases;
  run.loss.after = [&](const at::Tensor& loss, int call) {
    if (call < 3) phases.push_back(static_cast<events::Phase>(run.heartbeat.phase.load()));
    return loss;
  };
  run.run();
  using events::Phase;
  CHECK((phases == std::vector{Phase::startup, Phase::train, Phase::train}));
}
