#include "support/catch.hpp"
#include "support/close.hpp"
#include "train/step/gradients.hpp"

#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>

#include <cmath>

using namespace trainctl;

namespace {

std::vector<at::Tensor> with_gradients(double scale) {
  std::vector<at::Tensor> parameters{torch::zeros({2, 3}, torch::requires_grad()),
                                     torch::zeros({4}, torch::requires_grad()),
                                     torch::zeros({1}, torch::requires_grad())};
  parameters[0].mutable_grad() = torch::arange(6, torch::kFloat).view({2, 3}) * scale;
  parameters[1].mutable_grad() = torch::arange(4, torch::kFloat) * -scale;
  return parameters;  // the third has no gradient
}

}  // namespace

TEST_CASE("Clipper: gradients equal those that torch.nn.utils clips") {
  const double scale = GENERATE(0.01, 1.0, 50.0);
  for (const auto algorithm : {spec::ClipAlgorithm::norm, spec::ClipAlgorithm::value}) {
    auto clipped = with_gradients(scale);
    auto expected = with_gradients(scale);
    train::Clipper(0.75, algorithm)({clipped[0].grad(), clipped[1].grad()});
    if (algorithm == spec::ClipAlgorithm::norm) {
      torch::nn::utils::clip_grad_norm_(expected, 0.75);
    } else {
      torch::nn::utils::clip_grad_value_(expected, 0.75);
    }
    CHECK(mismatch(clipped[0].grad(), expected[0].grad()) == "");
    CHECK(mismatch(clipped[1].grad(), expected[1].grad()) == "");
  }
}

TEST_CASE("Clipper: gradients whose squares overflow are clipped to the bound") {
  auto parameters = with_gradients(1e25);
  const std::vector<at::Tensor> gradients{parameters[0].grad(), parameters[1].grad()};
  const at::Tensor norm = train::Clipper(0.75, spec::ClipAlgorithm::norm)(gradients);
  CHECK(norm.item<double>() == Approx(std::sqrt(69.0) * 1e25));
  CHECK(train::norm_of(gradients).item<double>() == Approx(0.75));
}

TEST_CASE("Clipper: returns the norm before clipping") {
  auto parameters = with_gradients(1);
  const std::vector<at::Tensor> gradients{parameters[0].grad(), parameters[1].grad()};
  const train::Clipper by_norm(0.75, spec::ClipAlgorithm::norm);
  const double expected = train::norm_of(gradients).item<double>();
  CHECK(by_norm.takes_norm());
  CHECK(by_norm(gradients).item<double>() == Approx(expected));
  CHECK_FALSE(by_norm({}).defined());
  const train::Clipper by_value(0.75, spec::ClipAlgorithm::value);
  CHECK_FALSE(by_value.takes_norm());
  CHECK_FALSE(by_value(gradients).defined());
}
