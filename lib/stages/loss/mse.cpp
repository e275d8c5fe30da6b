#include "spec/loss/mse.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/ops/mse_loss.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.MSELoss: the mean over rows and outputs.
class Mse final : public stage::Loss {
 public:
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {at::mse_loss(logits, as_numbers(logits, targets)), {}};
  }
};

}  // namespace

void register_loss_mse(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::Mse>(
      "mse", [](const auto&, const auto&) { return std::make_unique<Mse>(); });
}

}  // namespace trainctl::stages
