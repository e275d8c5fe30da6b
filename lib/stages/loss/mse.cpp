#include "spec/loss/mse.hpp"

#include "stages/builtin.hpp"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros_like.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.MSELoss: the mean over rows and outputs. Classes [N] become one-hot rows; numbers,
/// shaped like the logits, are compared as they are.
class Mse final : public stage::Loss {
 public:
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    if (targets.dim() == logits.dim()) return {at::mse_loss(logits, targets), {}};
    return {
        at::mse_loss(logits, at::zeros_like(logits.detach()).scatter_(1, targets.unsqueeze(1), 1)),
        {}};
  }
};

}  // namespace

void register_loss_mse(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::Mse>(
      "mse", [](const auto&, const auto&) { return std::make_unique<Mse>(); });
}

}  // namespace trainctl::stages
