#include "train/step/forward.hpp"

#include "stage/forward_context.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;
using train::ForwardOptions;

namespace {

/// Records the dtype in which it computes, and whether its inputs are channels-last.
struct Probe final : stage::Model {
  at::Tensor weight = torch::randn({5, 3, 2, 2}).requires_grad_();
  at::Tensor bias = torch::zeros({5}, torch::requires_grad());
  at::ScalarType computed = at::kDouble;
  bool saw_channels_last = false;

  at::Tensor forward(const at::Tensor& inputs) override {
    saw_channels_last = inputs.is_contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor x = at::conv2d(inputs, weight, bias);
    computed = x.scalar_type();
    return x.flatten(1);
  }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override {
    return {{"weight", weight}, {"bias", bias}};
  }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override { return {}; }
  void set_mode(stage::RunMode) override {}
  void to(at::Device) override {}
};

}  // namespace

TEST_CASE(
    "precision: mixed precision computes in 16 bits and returns float32 logits and gradients") {
  Probe model;
  const at::Tensor inputs = torch::randn({2, 3, 4, 4});
  const at::Tensor exact = train::forward(model, inputs, {});
  CHECK(model.computed == at::kFloat);
  const std::array<std::pair<spec::Precision, at::ScalarType>, 2> cases{
      {{spec::Precision::bf16_mixed, at::kBFloat16}, {spec::Precision::fp16_mixed, at::kHalf}}};
  for (const auto& [precision, computed] : cases) {
    const at::Tensor logits = train::forward(model, inputs, {.precision = precision});
    CHECK(model.computed == computed);
    CHECK(logits.scalar_type() == at::kFloat);
    CHECK(logits.allclose(exact, 0.05, 0.05));
    CHECK_FALSE(logits.equal(exact));
    model.weight.mutable_grad().reset();
    logits.sum().backward();
    CHECK(model.weight.grad().scalar_type() == at::kFloat);
  }
}

TEST_CASE("precision: a weight is cast again after an update") {
  Probe model;
  const at::Tensor inputs = torch::randn({2, 3, 4, 4});
  const ForwardOptions mixed{.precision = spec::Precision::bf16_mixed};
  const at::Tensor before = train::forward(model, inputs, mixed);
  {
    const torch::NoGradGuard guard;
    model.weight.mul_(2);
  }
  CHECK(train::forward(model, inputs, mixed).allclose(2 * before, 1e-3, 1e-3));
}

TEST_CASE("channels_last: images and convolutions have that layout, with the same result") {
  Probe model;
  const at::Tensor inputs = torch::randn({2, 3, 4, 4});
  const at::Tensor plain = train::forward(model, inputs, {});
  CHECK_FALSE(model.saw_channels_last);
  const at::Tensor identity = model.weight;
  train::lay_out_channels_last(model);
  CHECK(model.weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(identity.is_same(model.weight));
  const at::Tensor last = train::forward(model, inputs, {.channels_last = true});
  CHECK(model.saw_channels_last);
  CHECK(last.allclose(plain, 1e-5, 1e-5));
}

TEST_CASE("precision: training in bf16 and fp16 reaches about the loss of float32") {
  FakeRun full({.samples = 60, .batch = 4, .val_samples = 20});
  full.options.max_epochs = 3;
  full.run();
  for (const auto precision : {spec::Precision::bf16_mixed, spec::Precision::fp16_mixed}) {
    FakeRun mixed({.samples = 60, .batch = 4, .val_samples = 20});
    mixed.options.max_epochs = 3;
    mixed.options.forward.precision = precision;
    mixed.options.may_skip = 100;
    mixed.run();
    const double exact = value_of(full.all<events::EpochEnded>().back(), "val/loss");
    const double close = value_of(mixed.all<events::EpochEnded>().back(), "val/loss");
    CHECK(close == Approx(exact).epsilon(0.05));
    CHECK(mixed.model.weight.scalar_type() == at::kFloat);
  }
}

TEST_CASE("precision: logits stay in 16 bits for a loss that accepts them") {
  Probe model;
  const ForwardOptions mixed{.precision = spec::Precision::bf16_mixed, .widens_logits = false};
  CHECK(train::forward(model, torch::randn({2, 3, 4, 4}), mixed).scalar_type() == at::kBFloat16);
}

namespace {

struct TypeMetric final : stage::Metric {
  bool accepts = false;
  at::ScalarType seen = at::kDouble;
  at::Tensor total = torch::zeros({1}, torch::kDouble);

  explicit TypeMetric(bool accepts_any) : accepts(accepts_any) {}
  [[nodiscard]] std::string name() const override { return "type"; }
  [[nodiscard]] bool accepts_16_bit() const override { return accepts; }
  void update(const at::Tensor& logits, const at::Tensor& /*targets*/) override {
    seen = logits.scalar_type();
  }
  at::Tensor& sums() override { return total; }
  [[nodiscard]] double value() const override { return 0; }
  void reset() override {}
};

}  // namespace

TEST_CASE("update_metrics: only a metric that accepts them gets logits of 16 bits") {
  std::vector<std::unique_ptr<stage::Metric>> metrics;
  for (const bool accepts : {true, false}) metrics.push_back(std::make_unique<TypeMetric>(accepts));
  FakeLoss loss;
  train::update_metrics(metrics, loss, torch::zeros({2, 3}, torch::kBFloat16),
                        torch::zeros({2}, torch::kLong));
  CHECK(static_cast<TypeMetric&>(*metrics[0]).seen == at::kBFloat16);
  CHECK(static_cast<TypeMetric&>(*metrics[1]).seen == at::kFloat);
}

TEST_CASE("StepRunner: a loss learns the factor with which its gradient arrives") {
  for (const std::int64_t accumulate : {1, 3}) {
    FakeRun run({.samples = 22, .batch = 2});
    run.options.accumulate = accumulate;
    run.options.max_epochs = 1;
    std::vector<std::optional<double>> expected;
    std::vector<double> found;
    run.loss.after = [&](const at::Tensor& loss, int) {
      if (!loss.requires_grad()) {
        CHECK_FALSE(stage::loss_gradient().has_value());  // in an evaluation
        return loss;
      }
      expected.push_back(stage::loss_gradient());
      loss.register_hook(
          [&](const at::Tensor& gradient) { found.push_back(gradient.item<float>()); });
      return loss;
    };
    run.run();
    REQUIRE(found.size() == 11);
    REQUIRE(expected.size() == found.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(static_cast<float>(expected[i].value()) == static_cast<float>(found[i]));
    CHECK((found.front() == 1) == (accumulate == 1));
  }
}
