#include "base/json_archive.hpp"
#include "base/random.hpp"
#include "stage/stages.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

constexpr std::int64_t kEpochs = 30;
constexpr std::int64_t kStepsPerEpoch = 10;

/// Returns losses that decrease, increase and are sometimes not finite.
std::vector<double> observations(std::uint64_t seed) {
  CounterRng draw(seed, 0, 0, 0);
  std::vector<double> values;
  for (std::int64_t i = 0; i < kEpochs * kStepsPerEpoch; ++i) {
    const std::uint64_t kind = draw.below(40);
    const double value = 1 / (1 + 0.2 * static_cast<double>(i)) + 0.5 * draw.uniform();
    if (kind == 0) {
      values.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (kind == 1) {
      values.push_back(std::numeric_limits<double>::infinity());
    } else {
      values.push_back(value);
    }
  }
  return values;
}

/// Transfers the state through JSON, as a checkpoint does.
template <class Part>
void restore(Part& from, Part& to) {
  recall(to, Json::parse(to_line(remember(from))));
}

std::unique_ptr<stage::Scheduler> scheduler(const std::string& type, const std::string& options) {
  return stages::builtin_catalog().schedulers.build(stages_test::stage("scheduler", type, options),
                                                    {0.1, kEpochs, kStepsPerEpoch});
}

/// Returns the bits of rates and momenta in a range of epochs.
std::vector<std::uint64_t> rates_and_momenta(stage::Scheduler& scheduler,
                                             const std::vector<double>& observed, std::int64_t from,
                                             std::int64_t to) {
  std::vector<std::uint64_t> bits;
  for (std::int64_t epoch = from; epoch < to; ++epoch) {
    for (std::int64_t step = 0; step < kStepsPerEpoch; ++step) {
      const std::int64_t global = epoch * kStepsPerEpoch + step;
      bits.push_back(std::bit_cast<std::uint64_t>(scheduler.lr(epoch, global)));
      bits.push_back(
          std::bit_cast<std::uint64_t>(scheduler.momentum(epoch, global).value_or(-1.0)));
    }
    scheduler.observe(epoch, observed[static_cast<std::size_t>(epoch)]);
  }
  return bits;
}

std::vector<std::string> scheduler_options(const std::string& type) {
  if (type == "multi_step_lr") return {"{milestones: [3, 9]}"};
  if (type == "step_lr") return {"{step_size: 4}"};
  if (type == "exponential_lr") return {"{gamma: 0.9}"};
  if (type == "cosine_annealing_warm_restarts") return {"{t_0: 4}"};
  if (type == "sequential_lr")
    return {
        "{schedulers: [{type: linear_lr, total_iters: 5}, cosine_annealing_lr], "
        "milestones: [5]}"};
  if (type == "reduce_lr_on_plateau")
    return {"{patience: 0, factor: 0.7}", "{patience: 2, cooldown: 3, factor: 0.5, warmup: 3}",
            "{patience: 1, factor: 0.5, monitor: val/accuracy, threshold_mode: abs}"};
  return {"{}"};
}

std::unique_ptr<stage::Stopper> stopper(const std::string& type, const std::string& options) {
  return stages::builtin_catalog().stoppers.build(stages_test::stage("stopper", type, options), {});
}

/// Returns the decision for each value. The run continues regardless of it.
std::vector<std::string> decisions(stage::Stopper& stopper, const std::vector<double>& values,
                                   std::int64_t from, std::int64_t to) {
  std::vector<std::string> all;
  const auto add = [&](const stage::StopDecision& decision) {
    all.push_back(fmt::format("{} {} {} {}", decision.improved, decision.stop, decision.diverged,
                              decision.reason));
  };
  for (std::int64_t step = from; step < to; ++step) {
    const double value = values[static_cast<std::size_t>(step)];
    add(stopper.observe_step(step, value));
    if (step % 3 == 0) add(stopper.observe(step / 3, value));
  }
  return all;
}

std::unique_ptr<stage::Metric> metric(const std::string& type) {
  return stages::builtin_catalog().metrics.build(stages_test::stage("metric", type), {10});
}

}  // namespace

TEST_CASE("schedulers: a restored scheduler is bitwise equal to an uninterrupted one") {
  for (const std::string& type : stages::builtin_catalog().schedulers.names()) {
    for (const std::string& options : scheduler_options(type)) {
      for (const std::int64_t before : {0, 1, 4, 11, 20}) {
        INFO(type << " " << options << " after " << before << " epochs");
        const auto observed = observations(static_cast<std::uint64_t>(before));
        const auto whole = scheduler(type, options);
        rates_and_momenta(*whole, observed, 0, before);
        const auto resumed = scheduler(type, options);
        restore(*whole, *resumed);
        CHECK(rates_and_momenta(*whole, observed, before, kEpochs) ==
              rates_and_momenta(*resumed, observed, before, kEpochs));
        CHECK(remember(*whole) == remember(*resumed));
      }
    }
  }
}

TEST_CASE("reduce_lr_on_plateau: observed values change later learning rates") {
  const std::vector<double> observed(kEpochs, 1.0);
  for (const std::string& options : scheduler_options("reduce_lr_on_plateau")) {
    const auto whole = scheduler("reduce_lr_on_plateau", options);
    rates_and_momenta(*whole, observed, 0, 11);
    const auto fresh = scheduler("reduce_lr_on_plateau", options);
    CHECK(rates_and_momenta(*whole, observed, 11, kEpochs) !=
          rates_and_momenta(*fresh, observed, 11, kEpochs));
  }
}

TEST_CASE("sequential_lr: the state contains that of each scheduler") {
  const auto sequence = scheduler("sequential_lr", scheduler_options("sequential_lr")[0]);
  CHECK(remember(*sequence) == Json{{"0", Json::object()}, {"1", Json::object()}});
  CHECK_THROWS_WITH(recall(*sequence, Json{{"0", Json::object()}}),
                    "the saved value '1' is missing");
}

TEST_CASE("stoppers: a restored stopper makes the decisions of an uninterrupted one") {
  const std::map<std::string, std::vector<std::string>> own{
      {"patience",
       {"{patience: 20}", "{patience: 5, min_delta: 0.05}",
        "{monitor: val/accuracy, patience: 30, stopping_threshold: 2}"}},
      {"divergence",
       {"{}", "{patience: 4, smoothing: 0.9, factor: 1.2}", "{skip_first: 40, min_delta: 0}"}}};
  for (const std::string& type : stages::builtin_catalog().stoppers.names()) {
    for (const std::string& options : own.at(type)) {
      for (const std::int64_t before : {0, 1, 10, 60, 150}) {
        INFO(type << " " << options << " after " << before << " values");
        const auto values = observations(static_cast<std::uint64_t>(before));
        const std::int64_t end = kEpochs * kStepsPerEpoch;
        const auto whole = stopper(type, options);
        decisions(*whole, values, 0, before);
        const auto resumed = stopper(type, options);
        restore(*whole, *resumed);
        CHECK(decisions(*whole, values, before, end) == decisions(*resumed, values, before, end));
        CHECK(remember(*whole) == remember(*resumed));
      }
    }
  }
}

TEST_CASE("metrics: a metric restored from its sums has the same value") {
  const std::set<std::string> of_numbers{"mae", "rmse", "r2"};
  for (const std::string& type : stages::builtin_catalog().metrics.names()) {
    INFO(type);
    const auto whole = metric(type);
    const auto resumed = metric(type);
    for (int batch = 0; batch < 6; ++batch) {
      const at::Tensor logits = at::randn({8, 10});
      const at::Tensor targets =
          of_numbers.contains(type) ? at::randn({8, 10}) : at::randint(10, {8}, at::kLong);
      if (batch == 3) stage::merge(*resumed, whole->sums());
      whole->update(logits, targets);
      if (batch >= 3) resumed->update(logits, targets);
    }
    CHECK(resumed->sums().equal(whole->sums()));
    CHECK(std::bit_cast<std::uint64_t>(resumed->value()) ==
          std::bit_cast<std::uint64_t>(whole->value()));
  }
}
