#include "spec/loss/l1.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/ops/l1_loss.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.L1Loss: the mean over rows and outputs.
class L1 final : public stage::Loss {
 public:
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {at::l1_loss(logits, as_numbers(logits, targets)), {}};
  }
};

}  // namespace

void register_loss_l1(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::L1>(
      "l1", [](const auto&, const auto&) { return std::make_unique<L1>(); });
}

}  // namespace trainctl::stages
