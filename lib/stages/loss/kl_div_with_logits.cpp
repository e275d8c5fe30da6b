#include "spec/loss/kl_div_with_logits.hpp"

#include "stages/builtin.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.KLDivLoss(reduction="batchmean") of log_softmax(logits): the sum over the outputs,
/// the mean over the rows.
class KlDivWithLogits final : public stage::Loss {
 public:
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor sum = at::kl_div(logits.log_softmax(-1), targets, at::Reduction::Sum);
    return {sum / logits.size(0), {}};
  }
};

}  // namespace

void register_loss_kl_div_with_logits(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::KlDivWithLogits>(
      "kl_div_with_logits",
      [](const auto&, const auto&) { return std::make_unique<KlDivWithLogits>(); });
}

}  // namespace trainctl::stages
