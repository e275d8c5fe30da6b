#include "spec/loss/bce_with_logits.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/lerp.h>

#include <optional>

namespace trainctl::stages {
namespace {

/// As torch.nn.BCEWithLogitsLoss: the mean over rows and outputs.
class BceWithLogits final : public stage::Loss {
 public:
  BceWithLogits(const spec::loss::BceWithLogits& options, const stage::LossContext& context)
      : pos_weight_(weights_of(options.pos_weight, "pos_weight", context.outputs, context.device)) {
  }

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {
        at::binary_cross_entropy_with_logits(logits, as_numbers(logits, targets), {}, pos_weight_),
        {}};
  }

  /// It is linear in the targets: mixed rows are learnt from as numbers between 0 and 1.
  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const at::Tensor lambda = targets.lambda.unsqueeze(1).to(logits.scalar_type());
    return forward(logits, at::lerp(as_numbers(logits, targets.partner),
                                    as_numbers(logits, targets.own), lambda));
  }

 private:
  std::optional<at::Tensor> pos_weight_;
};

}  // namespace

void register_loss_bce_with_logits(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::BceWithLogits>(
      "bce_with_logits", [](const auto& options, const auto& context) {
        return std::make_unique<BceWithLogits>(options, context);
      });
}

}  // namespace trainctl::stages
