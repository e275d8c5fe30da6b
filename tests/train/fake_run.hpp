#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "spec/options/batch_transform.hpp"
#include "support/temp_folder.hpp"
#include "train/loop/train_loop.hpp"

#include <torch/types.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

// A run with fake stages: the trainer uses interfaces only, so a test decides what model, loss and
// metric do.

/// Random 2x3 gray images; the first pixel determines the class.
class FakeImages final : public trainctl::data::Dataset, public trainctl::data::ImageStore {
 public:
  explicit FakeImages(std::int64_t samples) : samples_(samples) {}
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const trainctl::data::Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return 3; }
  void fill(std::span<const std::int64_t> indices, trainctl::data::Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::array<std::byte, 6> image = pixels(indices[i]);
      if (!rows[0].empty()) std::memcpy(rows[0].data() + i * 6, image.data(), 6);
      const std::int64_t label = std::to_integer<int>(image[0]) % 3;
      std::memcpy(rows[1].data() + i * sizeof label, &label, sizeof label);
    }
  }
  [[nodiscard]] std::string fingerprint() const override { return "fake"; }
  [[nodiscard]] const trainctl::data::ImageStore* images() const override { return this; }
  [[nodiscard]] trainctl::data::StoredImage read(std::int64_t index,
                                                 std::vector<std::byte>& scratch) const override {
    const std::array<std::byte, 6> image = pixels(index);
    scratch.assign(image.begin(), image.end());
    return {scratch, {2, 3, 1}};
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return "sample " + std::to_string(index);
  }

 private:
  static std::array<std::byte, 6> pixels(std::int64_t index) {
    trainctl::CounterRng draw(7, 0, static_cast<std::uint64_t>(index), 0);
    std::array<std::byte, 6> image{};
    for (std::byte& pixel : image) pixel = static_cast<std::byte>(draw.below(256));
    return image;
  }

  std::int64_t samples_;
  trainctl::data::Layout layout_{{"image", trainctl::data::Dtype::u8, {2, 3, 1}},
                                 {"label", trainctl::data::Dtype::i64, {}}};
};

/// A linear classifier with known initial weights and a buffer that counts training batches.
struct FakeModel : trainctl::stage::Model {
  at::Tensor weight = (torch::arange(18, torch::kFloat).view({3, 6}) * 0.01).requires_grad_();
  at::Tensor bias = torch::zeros({3}, torch::requires_grad());
  at::Tensor batches = torch::zeros({}, torch::kLong);
  std::int64_t counts = 1;  // added for each batch
  double dropout = 0;       // of the inputs
  std::int64_t rows = 0;    // of the last batch
  trainctl::stage::RunMode mode = trainctl::stage::RunMode::evaluate;

  at::Tensor forward(const at::Tensor& inputs) override {
    const bool trains = mode == trainctl::stage::RunMode::train;
    if (trains) batches.add_(counts);
    rows = inputs.size(0);
    const at::Tensor flat = inputs.flatten(1);
    return at::linear(dropout > 0 ? at::dropout(flat, dropout, trains) : flat, weight, bias);
  }
  [[nodiscard]] std::vector<trainctl::stage::NamedTensor> parameters() const override {
    return {{"weight", weight}, {"bias", bias}};
  }
  [[nodiscard]] std::vector<trainctl::stage::NamedTensor> buffers() const override {
    return {{"batches", batches}};
  }
  void set_mode(trainctl::stage::RunMode to) override { mode = to; }
  void to(at::Device /*device*/) override {}
};

/// Cross entropy, weighted with `class_weight`. `after` may change the loss and receives the number
/// of the call.
struct FakeLoss final : trainctl::stage::Loss {
  std::function<at::Tensor(const at::Tensor& loss, int call)> after = [](const at::Tensor& loss,
                                                                         int) { return loss; };
  int calls = 0;
  at::Tensor class_weight;
  trainctl::stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    if (!class_weight.defined())
      return {after(at::cross_entropy_loss(logits, targets), calls++), {}};
    const at::Tensor sum =
        at::cross_entropy_loss(logits, targets, class_weight, at::Reduction::Sum);
    return {after(sum, calls++), class_weight.index_select(0, targets).sum()};
  }
  trainctl::stage::LossValue forward_mixed(const at::Tensor& logits,
                                           const trainctl::stage::MixedTargets& targets) override {
    const auto rows = [&](const at::Tensor& classes) {
      return at::cross_entropy_loss(logits, classes, {}, at::Reduction::None);
    };
    const at::Tensor own = targets.lambda * rows(targets.own);
    return {after((own + (1 - targets.lambda) * rows(targets.partner)).mean(), calls++), {}};
  }
};

struct FakeSgd final : trainctl::stage::Optimizer {
  std::vector<at::Tensor> parameters;
  double lr = 0.5;
  int steps = 0;
  void step() override {
    const torch::NoGradGuard guard;
    ++steps;
    for (at::Tensor& p : parameters) {
      if (p.grad().defined()) p.sub_(p.grad() * lr);
    }
  }
  void zero_grad() override {
    for (at::Tensor& p : parameters) {
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
  }
  void set_lr(double to) override { lr = to; }
  [[nodiscard]] double initial_lr() const override { return 0.5; }
  std::vector<double> momenta;  // values that were set
  bool with_momentum = false;
  [[nodiscard]] bool has_momentum() const override { return with_momentum; }
  void set_momentum(double momentum) override { momenta.push_back(momentum); }
  bool skips = false;
  [[nodiscard]] bool skips_on_device() const override { return skips; }
  [[nodiscard]] bool skips_in_kernel() const override { return skips; }
  bool repeatable = false;
  [[nodiscard]] bool is_repeatable() const override { return repeatable; }
};

struct FakeScheduler final : trainctl::stage::Scheduler {
  double rate = 0.5;
  double decay = 1;  // factor per step
  std::string watched;
  std::vector<double> seen;
  bool cycles = false;
  [[nodiscard]] bool cycles_momentum() const override { return cycles; }
  [[nodiscard]] std::optional<double> momentum(std::int64_t /*epoch*/,
                                               std::int64_t global_step) const override {
    return cycles ? std::optional(0.5 + 0.01 * static_cast<double>(global_step)) : std::nullopt;
  }
  [[nodiscard]] double lr(std::int64_t /*epoch*/, std::int64_t global_step) const override {
    return rate * std::pow(decay, static_cast<double>(global_step));
  }
  void observe(std::int64_t /*epoch*/, double monitored) override { seen.push_back(monitored); }
  [[nodiscard]] std::string monitor() const override { return watched; }
};

struct FakeStopper final : trainctl::stage::Stopper {
  std::int64_t stop_in_epoch = std::numeric_limits<std::int64_t>::max();
  bool restores = false;
  std::string watched = "val/loss";
  std::set<std::int64_t> improves_in;
  trainctl::stage::StopDecision observe(std::int64_t epoch, double /*monitored*/) override {
    return {.improved = improves_in.contains(epoch),
            .stop = epoch >= stop_in_epoch,
            .reason = "enough"};
  }
  [[nodiscard]] std::string monitor() const override { return watched; }
  [[nodiscard]] bool restore_best() const override { return restores; }
};

/// Counts rows; `val/score` follows a script with one value per validation.
struct FakeMetric final : trainctl::stage::Metric {
  at::Tensor total = torch::zeros({1}, torch::kDouble);
  at::Tensor last_targets;
  std::vector<double> script;
  mutable std::size_t asked = 0;
  [[nodiscard]] std::string name() const override { return script.empty() ? "rows" : "score"; }
  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    total.add_(logits.size(0));
    last_targets = targets.clone();
  }
  at::Tensor& sums() override { return total; }
  [[nodiscard]] double value() const override {
    if (script.empty()) return total.item<double>();
    return script[std::min(asked++ / 2, script.size() - 1)];  // called for train, then for val
  }
  void reset() override { total.zero_(); }
};

/// Advances a little on every reading, so that every part of an epoch takes time.
class TickingClock final : public trainctl::Clock {
 public:
  explicit TickingClock(double tick_s = 0.001) : tick_s_(tick_s) {}
  [[nodiscard]] double now() const override { return now_ += tick_s_; }

 private:
  double tick_s_;
  mutable double now_ = 0;
};

struct FakeRun {
  struct Sizes {
    std::int64_t samples = 20;
    std::int64_t batch = 4;
    std::int64_t val_samples = 8;  // 0: no validation
    double mixup_alpha = 0;        // 0: batches are not mixed
  };

  explicit FakeRun(Sizes wanted, std::unique_ptr<trainctl::dist::Communicator> with =
                                     trainctl::dist::make_single())
      : sizes(wanted), communicator(std::move(with)) {
    optimizer.parameters = {model.weight, model.bias};
    metrics.push_back(std::make_unique<FakeMetric>());
    train = train_loader();
    if (sizes.val_samples > 0)
      validation = loader({.dataset = std::make_shared<FakeImages>(sizes.val_samples)},
                          trainctl::data::Order::sequential);
  }
  FakeRun() : FakeRun(Sizes{}) {}

  [[nodiscard]] std::unique_ptr<trainctl::data::Loader> train_loader() const {
    trainctl::data::Pipeline pipeline{.dataset = std::make_shared<FakeImages>(sizes.samples)};
    if (sizes.mixup_alpha > 0) {
      pipeline.batch_transforms.push_back(trainctl::data::builtin_catalog().batch_transforms.at(
          "mixup")(trainctl::config::make_stage(
          "batch_transform", "mixup", trainctl::spec::batch_transform::Mixup{sizes.mixup_alpha})));
    }
    return loader(std::move(pipeline), trainctl::data::Order::shuffled);
  }

  [[nodiscard]] std::unique_ptr<trainctl::data::Loader> loader(trainctl::data::Pipeline pipeline,
                                                               trainctl::data::Order order) const {
    trainctl::data::LoaderOptions with;
    with.batch_size = sizes.batch;
    with.order = order;
    with.seed = 3;
    const auto place = communicator->rank_info();
    with.shard = {place.rank, place.world_size};
    return std::make_unique<trainctl::data::Loader>(std::move(pipeline), with);
  }

  trainctl::events::Finished run() {
    const trainctl::train::Session session{.model = model_in_use(),
                                           .task = *task,
                                           .loss = loss,
                                           .optimizer = optimizer_in_use(),
                                           .scheduler = scheduler_in_use(),
                                           .stopper = stopper_in_use(),
                                           .metrics = metrics,
                                           .unfreezing = unfreezing,
                                           .train = *train,
                                           .validation = validation.get(),
                                           .batch_size = sizes.batch,
                                           .communicator = *communicator,
                                           .buckets = buckets,
                                           .clock = *clock,
                                           .emit =
                                               [this](const auto& event) {
                                                 events.push_back(event);
                                                 if (on_event) on_event(event);
                                               },
                                           .heartbeat = &heartbeat,
                                           .stop_signal = &stop_signal,
                                           .run_dir = run_dir.empty() ? folder.path() : run_dir,
                                           .make_feed = make_feed,
                                           .make_graph = make_graph,
                                           .make_event = make_event};
    trainctl::train::TrainLoop loop(session, options);
    if (!resume.empty()) loop.resume(resume, resume_epoch);
    try {
      auto finished = loop.run();
      saved_the_end = loop.state().end_is_saved;
      return finished;
    } catch (const trainctl::Error& error) {
      loop.rescue(error.kind());
      throw;
    }
  }

  template <class Event>
  [[nodiscard]] std::vector<Event> all() const {
    std::vector<Event> found;
    for (const auto& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) found.push_back(*one);
    }
    return found;
  }

  [[nodiscard]] trainctl::stage::Model& model_in_use() {
    if (real_model) return *real_model;
    return model;
  }
  [[nodiscard]] trainctl::stage::Optimizer& optimizer_in_use() {
    if (real_optimizer) return *real_optimizer;
    return optimizer;
  }
  [[nodiscard]] trainctl::stage::Scheduler& scheduler_in_use() {
    if (real_scheduler) return *real_scheduler;
    return scheduler;
  }
  [[nodiscard]] trainctl::stage::Stopper* stopper_in_use() {
    if (real_stopper) return real_stopper.get();
    return has_stopper ? &stopper : nullptr;
  }

  /// Freezes the weight until `epoch`. Call it before the run.
  void freeze_weight_until(std::int64_t epoch) {
    trainctl::train::freeze(model, {"weight"});
    unfreezing = trainctl::train::unfreeze_later(model, {{.epoch = epoch, .match = {"weight"}}});
  }

  FakeMetric& metric() { return static_cast<FakeMetric&>(*metrics.front()); }

  Sizes sizes;
  TempFolder folder;
  std::filesystem::path run_dir;  // of all ranks; empty: the folder
  std::unique_ptr<trainctl::dist::Communicator> communicator;
  trainctl::dist::BucketOptions buckets;
  FakeModel model;
  std::unique_ptr<trainctl::stage::Task> task = std::make_unique<trainctl::stage::Task>();
  FakeLoss loss;
  FakeSgd optimizer;
  FakeScheduler scheduler;
  bool has_stopper = false;
  FakeStopper stopper;
  // Replace the fakes.
  std::unique_ptr<trainctl::stage::Model> real_model;
  std::unique_ptr<trainctl::stage::Optimizer> real_optimizer;
  std::unique_ptr<trainctl::stage::Scheduler> real_scheduler;
  std::unique_ptr<trainctl::stage::Stopper> real_stopper;
  std::vector<std::unique_ptr<trainctl::stage::Metric>> metrics;
  std::vector<trainctl::train::UnfrozenLater> unfreezing;
  trainctl::device::FeedFactory make_feed = trainctl::device::make_feed;
  /// Replaces CUDA graphs.
  std::function<std::unique_ptr<trainctl::device::StepGraph>(at::Device)> make_graph =
      trainctl::device::make_step_graph;
  /// Replaces CUDA events.
  std::function<std::unique_ptr<trainctl::device::Event>(at::Device)> make_event =
      [](at::Device on) { return trainctl::device::make_event(on); };
  std::unique_ptr<trainctl::data::Loader> train, validation;
  std::shared_ptr<trainctl::Clock> clock = std::make_shared<TickingClock>();
  trainctl::events::Heartbeat heartbeat{};
  volatile int stop_signal = 0;
  std::filesystem::path resume;  // a checkpoint to resume from
  trainctl::train::PartialEpoch resume_epoch = trainctl::train::PartialEpoch::resume;
  bool saved_the_end = false;
  trainctl::train::Options options;
  std::vector<trainctl::events::Event> events;
  std::function<void(const trainctl::events::Event&)> on_event;
};

/// Returns the value of a metric of an epoch; NaN if it is missing.
inline double value_of(const trainctl::events::EpochEnded& epoch, const std::string& name) {
  for (const auto& [key, value] : epoch.metrics) {
    if (key == name) return value;
  }
  return std::nan("");
}

/// Returns the error that a run throws.
inline trainctl::Error error_of(FakeRun& run) {
  try {
    run.run();
  } catch (const trainctl::Error& error) {
    return error;
  }
  throw std::runtime_error("nothing was thrown");
}
