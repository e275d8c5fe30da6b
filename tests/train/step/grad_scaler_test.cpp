#include "support/catch.hpp"
#include "train/step/gradients.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace trainctl;
using train::GradScaler;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void step(GradScaler& scaler, float gradient) {
  const at::Tensor tensor = torch::full({2}, gradient);
  scaler.unscale({tensor});
  scaler.update();
}

/// Makes one of many gradients not finite in several places, one after another.
void check_every_place(at::Device device) {
  GradScaler scaler(device, GradScaler::Scaling::none);
  std::vector<at::Tensor> gradients;
  for (int i = 0; i < 200; ++i)  // more than one launch of a GPU's kernel
    gradients.push_back(at::full({i % 7 + 1, 33}, -3e38F, at::TensorOptions(device)));
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t tensor : {std::size_t{0}, std::size_t{150}, gradients.size() - 1}) {
      for (const std::int64_t place : {0, 17, 32}) {
        const at::Tensor value = gradients[tensor].select(0, 0).select(0, place);
        value.fill_(bad);
        scaler.unscale(gradients);
        CHECK(scaler.found_inf().item<float>() == 1);
        value.fill_(-3e38F);
        scaler.unscale(gradients);
        CHECK(scaler.found_inf().item<float>() == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("GradScaler: an unscaled gradient equals that of the unscaled loss") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::dynamic);
  const at::Tensor weight = torch::ones({3}, torch::requires_grad());
  scaler.scale((weight * 2).sum()).backward();
  CHECK(weight.grad().equal(torch::full({3}, 2 * 65536.0)));
  scaler.unscale({weight.grad()});
  CHECK(weight.grad().equal(torch::full({3}, 2.0)));
  CHECK(scaler.found_inf().item<float>() == 0);
}

TEST_CASE("GradScaler: the scale halves after an overflow and doubles after 2,000 good steps") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::dynamic);
  step(scaler, kInf);
  step(scaler, std::numeric_limits<float>::quiet_NaN());
  CHECK(scaler.current_scale() == 16384);
  CHECK(scaler.skipped() == 2);
  CHECK(scaler.most_skipped_in_a_row() == 2);
  for (int i = 0; i < 1999; ++i) step(scaler, 1);
  CHECK(scaler.current_scale() == 16384);
  step(scaler, 1);
  CHECK(scaler.current_scale() == 32768);
  CHECK(scaler.skipped() == 2);
  CHECK(scaler.most_skipped_in_a_row() == 2);
  for (int i = 0; i < 3; ++i) step(scaler, kInf);
  CHECK(scaler.skipped() == 5);
  CHECK(scaler.most_skipped_in_a_row() == 3);
}

TEST_CASE("GradScaler: with AfterNonFinite stops every later step is skipped and counted") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::none, GradScaler::AfterNonFinite::stops);
  CHECK(scaler.stops_after_non_finite());
  step(scaler, 1);
  CHECK(scaler.found_inf().item<float>() == 0);
  CHECK(scaler.most_skipped_in_a_row() == 0);
  step(scaler, kInf);
  step(scaler, 1);
  step(scaler, std::numeric_limits<float>::quiet_NaN());
  CHECK(scaler.found_inf().item<float>() == 1);
  CHECK(scaler.most_skipped_in_a_row() == 3);
  CHECK(scaler.skipped() == 3);
}

TEST_CASE("GradScaler: without scaling gradients are only read, and the scale stays 1") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::none);
  const at::Tensor gradient = torch::randn({100});
  const at::Tensor before = gradient.clone();
  const auto writes = gradient._version();
  scaler.unscale({gradient});
  CHECK(gradient._version() == writes);
  CHECK(gradient.equal(before));
  CHECK(scaler.scale(before).is_same(before));
  step(scaler, kInf);
  CHECK(scaler.skipped() == 1);
  CHECK(scaler.current_scale() == 1);
}

TEST_CASE("GradScaler: without scaling a value that is not finite is found in any place") {
  check_every_place(at::kCPU);
}

TEST_CASE("GradScaler: a GPU finds a value that is not finite in any place", "[gpu]") {
  if (!at::globalContext().hasCUDA()) skip("no GPU");
  check_every_place(at::Device(at::kCUDA, 0));
}

TEST_CASE("GradScaler: without scaling gradients without elements are accepted") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::none);
  const at::Tensor none = torch::empty({0, 3});
  for (const float value : {1.0F, kInf}) {
    scaler.unscale({none, torch::full({2}, value)});
    CHECK(scaler.found_inf().item<float>() == (value == kInf ? 1 : 0));
  }
  scaler.unscale({none});
  CHECK(scaler.found_inf().item<float>() == 0);
  scaler.unscale({});
  CHECK(scaler.found_inf().item<float>() == 0);
}

TEST_CASE("GradScaler: check() finds a norm that is not finite, in place of all gradients") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::none, GradScaler::AfterNonFinite::stops);
  scaler.check(at::full({}, 1e200, at::kDouble));
  CHECK(scaler.found_inf().item<float>() == 0);
  scaler.check(at::full({}, std::nan(""), at::kDouble));
  scaler.check(at::full({}, 1.0, at::kDouble));
  CHECK(scaler.found_inf().item<float>() == 1);
}
