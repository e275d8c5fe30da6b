#include "stages/loss/fused_entropy.hpp"

#include "device/kernels.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <limits>

using namespace trainctl;
using Reduction = stages::FusedEntropy::Reduction;

// Tests the CPU implementation; a test below compares the CUDA kernel with it.

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct LossAndGradient {
  at::Tensor value, gradient;
};

template <class Loss>
LossAndGradient loss_and_gradient(const at::Tensor& logits, Loss loss) {
  const at::Tensor x = logits.detach().clone().requires_grad_();
  const at::Tensor value = loss(x);
  (value * 3).backward();
  return {value.detach(), x.grad()};
}

LossAndGradient fused(const at::Tensor& logits, const at::Tensor& classes,
                      const stages::FusedEntropy& options) {
  return loss_and_gradient(
      logits, [&](const at::Tensor& x) { return stages::fused_entropy(x, classes, options); });
}

LossAndGradient by_torch(const at::Tensor& logits, const at::Tensor& classes,
                         const stages::FusedEntropy& options) {
  const auto reduction =
      options.reduction == Reduction::mean ? at::Reduction::Mean : at::Reduction::Sum;
  return loss_and_gradient(logits, [&](const at::Tensor& x) {
    return at::cross_entropy_loss(x, classes, {}, reduction, options.ignored.value_or(-100),
                                  options.label_smoothing);
  });
}

constexpr Tolerance kSums{.relative = 1e-5};  // for sums of exponentials over a row

void check_close(const LossAndGradient& found, const LossAndGradient& expected) {
  CHECK(mismatch(found.value, expected.value, kSums) == "");
  CHECK(mismatch(found.gradient, expected.gradient, kSums) == "");
}

void check_against_torch(const at::Tensor& logits, const at::Tensor& classes,
                         const stages::FusedEntropy& options) {
  check_close(fused(logits, classes, options), by_torch(logits, classes, options));
}

/// Returns numbers of classes below, equal to and above the 32 lanes that share a row.
std::vector<std::int64_t> widths() { return {1, 2, 10, 32, 33, 100, 1000, 1500}; }

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
    CHECK(at::equal(stages::fused_entropy(logits, classes, options), expected));
    const c10::InferenceMode guard;
    CHECK(at::equal(stages::fused_entropy(logits, classes, options), expected));
  }
}

TEST_CASE("fused_entropy: a second derivative is an error") {
  const at::Tensor logits = at::randn({2, 3}).requires_grad_();
  const at::Tensor loss = stages::fused_entropy(logits, at::zeros({2}, at::kLong), {});
  CHECK_THROWS_WITH(torch::autograd::grad({loss}, {logits}, {}, true, /*create_graph=*/true),
                    Contains("has no second derivative"));
  CHECK_NOTHROW(torch::autograd::grad({loss}, {logits}));
}

TEST_CASE("fused_entropy: CPU tensors use PyTorch's operator instead") {
  CHECK_FALSE(stages::fuses_entropy(at::randn({4, 3}), at::zeros({4}, at::kLong)));
}

TEST_CASE("fused_entropy: without a CUDA compiler the kernel reports why it is missing") {
  if (device::kernels_built()) skip("this build has kernels");
  CHECK_THAT(device::launch_row_entropy({}, nullptr), Contains("no CUDA compiler was found"));
}

TEST_CASE("fused_entropy: the GPU kernel matches the CPU and is deterministic", "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  at::manual_seed(7);
  for (const std::int64_t width : widths()) {
    for (const double smoothing : {0.0, 0.1}) {
      INFO(width << " classes, smoothing " << smoothing);
      const at::Tensor logits = at::randn({300, width}) * 3;
      at::Tensor classes = at::randint(width, {300}, at::kLong);
      classes[17] = -100;
      const stages::FusedEntropy options{.label_smoothing = smoothing};
      const LossAndGradient found = fused(logits.cuda(), classes.cuda(), options);
      check_close({found.value.cpu(), found.gradient.cpu()}, fused(logits, classes, options));
      CHECK(at::equal(fused(logits.cuda(), classes.cuda(), options).gradient, found.gradient));
    }
  }
}

TEST_CASE(
    "cross_entropy: a GPU uses the fused kernel for float32 only, and all options match the CPU",
    "[gpu][kernels]") {
  if (!at::globalContext().hasCUDA() || !device::kernels_built()) skip("no GPU, or no kernels");
  const at::Tensor logits = at::randn({8, 3});
  const at::Tensor classes = at::randint(3, {8}, at::kLong);
  CHECK(stages::fuses_entropy(logits.cuda(), classes.cuda()));
  CHECK_FALSE(stages::fuses_entropy(logits.cuda().to(at::kHalf), classes.cuda()));
  const stage::Catalog all = stages::builtin_catalog();
  for (const std::string options :
       {"{}", "{label_smoothing: 0.1}", "{ignore_index: 1}", "{weight: [1, 2, 3]}"}) {
    INFO(options);
    const auto value = [&](at::Device device) {
      const auto loss =
          all.losses.build(stages_test::stage("loss", "cross_entropy", options), {3, device});
      return loss->forward(logits.to(device), classes.to(device)).mean().cpu();
    };
    CHECK(mismatch(value(at::kCUDA), value(at::kCPU), kSums) == "");
  }
}
