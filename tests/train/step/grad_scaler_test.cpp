#include "support/catch.hpp"
#include "train/step/gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <limits>

using namespace trainctl;
using train::GradScaler;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

void step(GradScaler& scaler, float gradient) {
  const at::Tensor tensor = torch::full({2}, gradient);
  scaler.unscale({tensor});
  scaler.update();
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

TEST_CASE(
    "GradScaler: without scaling gradients are unchanged, and non-finite values are detected") {
  GradScaler scaler(at::kCPU, GradScaler::Scaling::none);
  const at::Tensor gradient = torch::randn({100});
  const at::Tensor before = gradient.clone();
  scaler.unscale({gradient});
  CHECK(gradient.equal(before));
  CHECK(scaler.scale(before).is_same(before));
  step(scaler, kInf);
  CHECK(scaler.skipped() == 1);
  CHECK(scaler.current_scale() == 1);
}
