#include "stages/loss/fused_entropy.hpp"

#include "device/kernels.hpp"
#include "stage/forward_context.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace trainctl;
using Reduction = stages::FusedEntropy::Reduction;

// Tests the CPU implementation; a test below compares the CUDA kernel with it.

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct LossAndGradient {
  at::Tensor value, gradient;
};

constexpr double kFactor = 3;  // of the loss in the value that is differentiated

template <class Loss>
LossAndGradient loss_and_gradient(const at::Tensor& logits, Loss loss) {
  const at::Tensor x = logits.detach().clone().requires_grad_();
  const at::Tensor value = loss(x);
  (value * kFactor).backward();
  return {value.detach(), x.grad()};
}

/// With a factor that is known, wrong or not known, the result is the same.
LossAndGradient fused(const at::Tensor& logits, const stages::ClassTargets& targets,
                      const stages::FusedEntropy& options,
                      std::optional<double> expected = std::nullopt) {
  const stage::LossGradientScope scope(expected);
  return loss_and_gradient(
      logits, [&](const at::Tensor& x) { return stages::fused_entropy(x, targets, options); });
}

LossAndGradient fused(const at::Tensor& logits, const at::Tensor& classes,
                      const stages::FusedEntropy& options) {
  return fused(logits, stages::ClassTargets{classes}, options);
}

/// PyTorch's result in float32.
LossAndGradient by_torch(const at::Tensor& logits, const stages::ClassTargets& targets,
                         const stages::FusedEntropy& options) {
  const std::optional<at::Tensor> weight =
      options.weight.defined() ? std::optional(options.weight) : std::nullopt;
  const auto rows = [&](const at::Tensor& x, const at::Tensor& classes) {
    return at::cross_entropy_loss(x, classes, weight, at::Reduction::None,
                                  options.ignored.value_or(-100), options.label_smoothing);
  };
  return loss_and_gradient(logits.to(at::kFloat), [&](const at::Tensor& x) {
    const bool has_classes = targets.classes.defined();
    at::Tensor losses = rows(x, has_classes ? targets.classes : targets.probabilities);
    if (targets.partners.defined())
      losses = at::lerp(rows(x, targets.partners), losses, targets.lambda);
    return options.reduction == Reduction::mean ? losses.mean() : losses.sum();
  });
}

constexpr Tolerance kSums{.relative = 1e-5};  // for sums of exponentials over a row

void check_close(const LossAndGradient& found, const LossAndGradient& expected) {
  CHECK(mismatch(found.value, expected.value, kSums) == "");
  CHECK(mismatch(found.gradient, expected.gradient, kSums) == "");
}

/// Also covers gradients that are computed with the loss, and ones whose factor was wrong.
void check_against_torch(const at::Tensor& logits, const stages::ClassTargets& targets,
                         const stages::FusedEntropy& options) {
  const LossAndGradient expected = by_torch(logits, targets, options);
  for (const std::optional<double> known : {std::optional<double>(), {kFactor}, {0.5}})
    check_close(fused(logits, targets, options, known), expected);
}

void check_against_torch(const at::Tensor& logits, const at::Tensor& classes,
                         const stages::FusedEntropy& options) {
  check_against_torch(logits, stages::ClassTargets{classes}, options);
}

/// Returns numbers of classes below, equal to and above the 32 lanes that share a row, and odd
/// ones, with which most rows start between two aligned addresses.
std::vector<std::int64_t> widths() { return {1, 2, 7, 10, 32, 33, 100, 1000, 1501}; }

constexpr Tolerance kHalves{.relative = 1e-2, .absolute = 1e-3};  // gradients in 16 bits

/// Mixed rows, some of which have an ignored class, and class weights.
struct Case {
  at::Tensor logits;
  stages::ClassTargets targets;
  stages::FusedEntropy options;
};
Case mixed_case(std::int64_t rows, std::int64_t width) {
  const auto classes = [&] { return at::randint(width, {rows}, at::kLong); };
  Case all{at::randn({rows, width}) * 3, {classes(), classes(), at::rand({rows})}, {}};
  all.targets.classes[0] = -100;
  all.targets.partners[rows - 1] = -100;
  all.options.weight = at::rand({width}) + 0.5;
  all.options.weight_sum = all.options.weight.sum().item<double>();
  all.options.label_smoothing = 0.1;
  return all;
}

/// Rows of probabilities that add up to 1, and class weights.
Case probability_case(std::int64_t rows, std::int64_t width, double smoothing) {
  Case all{at::randn({rows, width}) * 3, {}, {}};
  all.targets.probabilities = (at::randn({rows, width}) * 2).softmax(-1);
  all.options.weight = at::rand({width}) + 0.5;
  all.options.weight_sum = all.options.weight.sum().item<double>();
  all.options.label_smoothing = smoothing;
  return all;
}

}  // namespace

TEST_CASE("fused_entropy: values and gradients equal PyTorch's, with and without smoothing") {
  at::manual_seed(3);
  for (const std::int64_t classes : widths()) {
    for (const double smoothing : {0.0, 0.1, 0.9}) {
      for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
        INFO(classes << " classes, smoothing " << smoothing);
        check_against_torch(at::randn({7, classes}) * 3, at::randint(classes, {7}, at::kLong),
                            {.reduction = reduction, .label_smoothing = smoothing});
      }
    }
  }
}

TEST_CASE("fused_entropy: rows with the ignored label have no loss and no gradient") {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({6, 5});
  for (const std::int64_t ignored : {std::int64_t{-100}, std::int64_t{2}}) {
    const stages::FusedEntropy options{
        .reduction = Reduction::sum, .label_smoothing = 0.1, .ignored = ignored};
    const at::Tensor some = torch::tensor({0L, ignored, 4L, 2L, ignored, 1L});
    check_against_torch(logits, some, options);
    CHECK(fused(logits, some, options).gradient[1].abs().sum().item<float>() == 0);
    const LossAndGradient none = fused(logits, at::full({6}, ignored, at::kLong), options);
    CHECK(none.value.item<float>() == 0);
    CHECK(none.gradient.abs().sum().item<float>() == 0);
  }
}

TEST_CASE("fused_entropy: large logits and logits of -inf give PyTorch's values") {
  const at::Tensor classes = torch::tensor({0L, 2L, 1L});
  const at::Tensor large =
      torch::tensor({{1e4F, -1e4F, 0.F}, {3e38F, 1e30F, 3e38F}, {-1e5F, -1e5F, -1e5F}});
  check_against_torch(large, classes, {});
  CHECK(fused(large, classes, {}).gradient.isfinite().all().item<bool>());
  const at::Tensor masked = torch::tensor(
      {{1.F, -kInfinity, 0.F}, {-kInfinity, -kInfinity, 2.F}, {-kInfinity, 0.5F, -kInfinity}});
  check_against_torch(masked, classes, {});
  CHECK(fused(masked, classes, {}).value.isfinite().item<bool>());
  check_against_torch(masked, classes, {.label_smoothing = 0.1});  // an infinite loss
  check_against_torch(masked, torch::tensor({1L, 0L, 0L}), {});    // classes with probability 0
}

TEST_CASE("fused_entropy: NaN and infinite logits give PyTorch's values") {
  const at::Tensor classes = torch::tensor({0L, 1L});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    for (const std::int64_t place : {0, 1, 2}) {
      at::Tensor logits = torch::tensor({{1.F, 2.F, 3.F}, {0.F, 1.F, 0.F}});
      logits[0][place] = bad;
      check_against_torch(logits, classes, {});
    }
  }
  check_against_torch(at::full({2, 3}, -kInfinity), classes, {});
}

TEST_CASE("fused_entropy: a label outside the classes gives NaN in its row") {
  for (const std::int64_t none : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 62}) {
    const LossAndGradient found = fused(torch::tensor({{1.F, 2.F, 3.F}, {0.F, 1.F, 0.F}}),
                                        torch::tensor({0L, none}), {.reduction = Reduction::sum});
    CHECK(found.value.isnan().item<bool>());
    CHECK(found.gradient[0].isfinite().all().item<bool>());
    CHECK(found.gradient[1].isnan().all().item<bool>());
  }
}

TEST_CASE("fused_entropy: transposed logits and a batch without rows are accepted") {
  at::manual_seed(5);
  check_against_torch(at::randn({4, 6}).t(), at::randint(4, {6}, at::kLong), {});
  const LossAndGradient none =
      fused(at::empty({0, 3}), at::empty({0}, at::kLong), {.reduction = Reduction::sum});
  CHECK(none.value.item<float>() == 0);
}

TEST_CASE("fused_entropy: the value without gradients is bitwise equal to that with gradients") {
  at::manual_seed(6);
  const at::Tensor logits = at::randn({5, 40});
  const at::Tensor classes = at::randint(40, {5}, at::kLong);
  for (const double smoothing : {0.0, 0.1}) {
    const stages::FusedEntropy options{.label_smoothing = smoothing};
    const at::Tensor expected = fused(logits, classes, options).value;
    CHECK(at::equal(stages::fused_entropy(logits, {classes}, options), expected));
    const c10::InferenceMode guard;
    CHECK(at::equal(stages::fused_entropy(logits, {classes}, options), expected));
  }
}

TEST_CASE("fused_entropy: a second derivative is an error") {
  const at::Tensor logits = at::randn({2, 3}).requires_grad_();
  const at::Tensor loss = stages::fused_entropy(logits, {at::zeros({2}, at::kLong)}, {});
  CHECK_THROWS_WITH(torch::autograd::grad({loss}, {logits}, {}, true, /*create_graph=*/true),
                    Contains("no second derivative"));
  CHECK_NOTHROW(torch::autograd::grad({loss}, {logits}));
}

TEST_CASE("fused_entropy: CPU tensors use PyTorch's operator instead") {
  CHECK_FALSE(stages::fuses_entropy(at::randn({4, 3}), {at::zeros({4}, at::kLong)}));
}

TEST_CASE("fused_entropy: without a CUDA compiler the kernel reports why it is missing") {
  if (device::kernels_built()) skip("this build has kernels");
  CHECK_THAT(device::launch_row_entropy({}, nullptr), Contains("no CUDA compiler was found"));
}

TEST_CASE("fused_entropy: mixed rows and class weights give PyTorch's values") {
  at::manual_seed(8);
  for (const std::int64_t width : widths()) {
    INFO(width << " classes");
    Case all = mixed_case(6, width);
    for (const double smoothing : {0.0, 0.1}) {
      all.options.label_smoothing = smoothing;
      check_against_torch(all.logits, all.targets, all.options);
      stages::FusedEntropy unweighted = all.options;
      unweighted.weight = at::Tensor();
      check_against_torch(all.logits, all.targets, unweighted);
      check_against_torch(all.logits, all.targets.partners, all.options);
    }
  }
}

TEST_CASE("fused_entropy: probabilities, smoothing and class weights give PyTorch's values") {
  at::manual_seed(11);
  for (const std::int64_t width : widths()) {
    for (const double smoothing : {0.0, 0.1}) {
      INFO(width << " classes, smoothing " << smoothing);
      const Case all = probability_case(6, width, smoothing);
      check_against_torch(all.logits, all.targets, all.options);
      stages::FusedEntropy unweighted = all.options;
      unweighted.weight = at::Tensor();
      unweighted.reduction = Reduction::sum;
      check_against_torch(all.logits, all.targets, unweighted);
    }
  }
}

TEST_CASE("fused_entropy: a probability of 1 is the loss of the class, and 0 has none") {
  at::manual_seed(12);
  const at::Tensor logits = at::randn({4, 9});
  const at::Tensor classes = at::randint(9, {4}, at::kLong);
  const at::Tensor one_hot = at::one_hot(classes, 9).to(at::kFloat);
  check_close(fused(logits, stages::ClassTargets{.probabilities = one_hot}, {}),
              fused(logits, classes, {}));
  const LossAndGradient none =
      fused(logits, stages::ClassTargets{.probabilities = at::zeros({4, 9})}, {});
  CHECK(none.value.item<float>() == 0);
  CHECK(none.gradient.abs().max().item<float>() == 0);
  check_against_torch(logits, stages::ClassTargets{.probabilities = one_hot * 2.5}, {});
}

TEST_CASE("fused_entropy: rows of probabilities and logits may lie apart in memory") {
  at::manual_seed(13);
  const Case all = probability_case(5, 11, 0.1);
  const at::Tensor padded = at::zeros({5, 16}).narrow(1, 0, 11).copy_(all.logits);
  const at::Tensor apart = at::zeros({5, 13}).narrow(1, 0, 11).copy_(all.targets.probabilities);
  const at::Tensor transposed = all.targets.probabilities.t().contiguous().t();
  for (const at::Tensor& logits : {all.logits, padded}) {
    for (const at::Tensor& probabilities : {all.targets.probabilities, apart, transposed}) {
      const stage::LossGradientScope scope(1);
      const at::Tensor x = logits.detach().requires_grad_();
      const stages::ClassTargets targets{.probabilities = probabilities};
      const at::Tensor value = stages::fused_entropy(x, targets, all.options);
      value.backward();
      const LossAndGradient expected = by_torch(all.logits, all.targets, all.options);
      CHECK(mismatch(value.detach(), expected.value, kSums) == "");
      CHECK(mismatch(x.grad() * kFactor, expected.gradient, kSums) == "");
    }
  }
}

TEST_CASE("fused_entropy: logits of 16 bits have float32 losses and gradients of their type") {
  at::manual_seed(9);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const std::int64_t width : widths()) {
      INFO(width << " classes of " << type);
      for (Case all : {mixed_case(5, width), probability_case(5, width, 0.1)}) {
        all.logits = all.logits.to(type);
        const LossAndGradient expected = by_torch(all.logits, all.targets, all.options);
        for (const std::optional<double> known : {std::optional<double>(), {kFactor}}) {
          const LossAndGradient found = fused(all.logits, all.targets, all.options, known);
          CHECK(found.value.scalar_type() == at::kFloat);
          CHECK(found.gradient.scalar_type() == type);
          CHECK(mismatch(found.value, expected.value, kSums) == "");
          CHECK(mismatch(found.gradient.to(at::kFloat), expected.gradient, kHalves) == "");
        }
      }
    }
  }
}

TEST_CASE("fused_entropy: a loss scale is applied before float16 gradients are rounded") {
  const at::Tensor logits = at::zeros({4096, 4}, at::kHalf).requires_grad_();
  const at::Tensor loss = stages::fused_entropy(logits, {at::zeros({4096}, at::kLong)}, {});
  (loss * 65536).backward();
  CHECK(logits.grad()[0][1].item<float>() == 4);  // 65536 / 4096 / 4; without scale 6e-5
  CHECK(logits.grad()[0][0].item<float>() == -12);
}

TEST_CASE("fused_entropy: a second backward pass does not change the gradient of the first") {
  const stage::LossGradientScope scope(1);
  const at::Tensor logits = at::randn({3, 5}).requires_grad_();
  const at::Tensor loss = stages::fused_entropy(logits, {at::zeros({3}, at::kLong)}, {});
  const auto gradient = [&](double factor) {
    return torch::autograd::grad({loss * factor}, {logits}, {}, /*retain_graph=*/true)[0];
  };
  const at::Tensor first = gradient(1);
  const at::Tensor copy = first.clone();
  CHECK(mismatch(gradient(2), copy * 2) == "");
  CHECK(at::equal(first, copy));
  CHECK(at::equal(gradient(1), copy));
}

TEST_CASE("fused_entropy: without a reduction, returns the losses of the rows") {
  at::manual_seed(10);
  const at::Tensor logits = at::randn({4, 9});
  const at::Tensor classes = at::randint(9, {4}, at::kLong);
  const at::Tensor losses = stages::fused_entropy(logits, {classes}, {Reduction::none});
  CHECK(mismatch(losses, at::cross_entropy_loss(logits, classes, {}, at::Reduction::None), kSums) ==
        "");
}

TEST_CASE("traffic: a cross entropy with its gradient moves each logit twice") {
  device::RowEntropy job;
  job.rows = 3;
  job.classes = 5;
  CHECK(device::traffic(job) == 3 * 5 * 4);
  float gradients = 0;
  job.gradients = &gradients;
  job.type = device::Element::bfloat16;
  CHECK(device::traffic(job) == 3 * 5 * 2 * 2);
  job.probabilities = &gradients;
  CHECK(device::traffic(job) == 3 * 5 * (2 * 2 + 4));
}

TEST_CASE("fused_entropy: the GPU kernel matches the CPU and is deterministic", "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  at::manual_seed(7);
  std::vector<std::int64_t> all_widths = widths();
  all_widths.insert(all_widths.end(), {9000, 50257});  // the classes of the largest blocks
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t width : all_widths) {
      INFO(width << " classes of " << type);
      const std::int64_t rows = width > 2000 ? 20 : 300;
      Case plain = mixed_case(rows, width);
      plain.targets = {plain.targets.partners};
      plain.options = {};
      for (Case all : {mixed_case(rows, width), plain, probability_case(rows, width, 0.1),
                       probability_case(rows, width, 0)}) {
        all.logits = all.logits.to(type);
        const auto there = [](const at::Tensor& x) { return x.defined() ? x.cuda() : x; };
        const stages::ClassTargets targets{there(all.targets.classes), there(all.targets.partners),
                                           there(all.targets.lambda),
                                           there(all.targets.probabilities)};
        stages::FusedEntropy options = all.options;
        options.weight = there(options.weight);
        const LossAndGradient expected = fused(all.logits, all.targets, all.options);
        const Tolerance close = type == at::kFloat ? kSums : kHalves;
        for (const std::optional<double> known : {std::optional<double>(), {kFactor}, {0.5}}) {
          const LossAndGradient found = fused(all.logits.cuda(), targets, options, known);
          CHECK(mismatch(found.value.cpu(), expected.value, kSums) == "");
          CHECK(mismatch(found.gradient.cpu().to(at::kFloat), expected.gradient.to(at::kFloat),
                         close) == "");
          CHECK(at::equal(fused(all.logits.cuda(), targets, options, known).gradient,
                          found.gradient));
        }
      }
    }
  }
}

TEST_CASE("cross_entropy: a GPU uses the fused kernel, and all options match the CPU",
          "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  const at::Tensor logits = at::randn({8, 3});
  const at::Tensor classes = at::randint(3, {8}, at::kLong);
  const stage::MixedTargets mixed{classes, classes.flip(0), at::rand({8})};
  CHECK(stages::fuses_entropy(logits.cuda(), {classes.cuda()}));
  CHECK(stages::fuses_entropy(logits.cuda().to(at::kHalf), {classes.cuda()}));
  CHECK_FALSE(stages::fuses_entropy(logits.cuda().to(at::kDouble), {classes.cuda()}));
  const at::Tensor probabilities = at::randn({8, 3}).softmax(-1);
  CHECK(stages::fuses_entropy(logits.cuda(), {.probabilities = probabilities.cuda()}));
  CHECK_FALSE(stages::fuses_entropy(logits.cuda(), {.probabilities = probabilities}));
  const stage::Catalog all = stages::builtin_catalog();
  for (const std::string options :
       {"{}", "{label_smoothing: 0.1}", "{ignore_index: 1}", "{weight: [1, 2, 3]}",
        "{weight: [1, 2, 3], label_smoothing: 0.1, ignore_index: 1}"}) {
    INFO(options);
    const auto values = [&](at::Device device) {
      const auto on = [&](const at::Tensor& x) { return x.to(device); };
      const auto loss =
          all.losses.build(stages_test::stage("loss", "cross_entropy", options), {3, device});
      CHECK(loss->accepts_16_bit() == device.is_cuda());
      const at::Tensor both =
          loss->forward_mixed(on(logits), {on(mixed.own), on(mixed.partner), on(mixed.lambda)})
              .mean();
      std::vector<at::Tensor> found{loss->forward(on(logits), on(classes)).mean(), both};
      if (options.find("ignore") == std::string::npos)
        found.push_back(loss->forward(on(logits), on(probabilities)).mean());
      return at::stack(found).cpu();
    };
    CHECK(mismatch(values(at::kCUDA), values(at::kCPU), kSums) == "");
  }
}
