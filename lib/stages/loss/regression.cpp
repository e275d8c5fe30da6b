#include "spec/options/loss.hpp"
#include "stages/builtin.hpp"
#include "stages/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>

#include <memory>
#include <utility>

namespace trainctl::stages {
namespace {

/// The mean of a function of logits and targets over rows and outputs, like the torch.nn loss of
/// the same name.
template <class Function>
class RegressionLoss final : public stage::Loss {
 public:
  explicit RegressionLoss(Function function) : function_(std::move(function)) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {function_(logits, as_numbers(logits, targets)), {}};
  }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<stage::Loss> make_regression_loss(Function function) {
  return std::make_unique<RegressionLoss<Function>>(std::move(function));
}

}  // namespace

void register_loss_regression(stage::Catalog& catalog) {
  auto& losses = catalog.losses;
  losses.add<spec::loss::Mse>("mse", [](const auto&, const auto&) {
    return make_regression_loss([](const at::Tensor& outputs, const at::Tensor& targets) {
      return at::mse_loss(outputs, targets);
    });
  });
  losses.add<spec::loss::L1>("l1", [](const auto&, const auto&) {
    return make_regression_loss([](const at::Tensor& outputs, const at::Tensor& targets) {
      return at::l1_loss(outputs, targets);
    });
  });
  losses.add<spec::loss::SmoothL1>("smooth_l1", [](const auto& options, const auto&) {
    return make_regression_loss(
        [beta = options.beta](const at::Tensor& outputs, const at::Tensor& targets) {
          return at::smooth_l1_loss(outputs, targets, at::Reduction::Mean, beta);
        });
  });
  losses.add<spec::loss::Huber>("huber", [](const auto& options, const auto&) {
    return make_regression_loss(
        [delta = options.delta](const at::Tensor& outputs, const at::Tensor& targets) {
          return at::huber_loss(outputs, targets, at::Reduction::Mean, delta);
        });
  });
}

}  // namespace trainctl::stages
