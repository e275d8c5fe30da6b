#include "spec/loss/nll.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/nll_loss.h>

#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kNoLabel = -100;  // torch's default of ignore_index

/// As torch.nn.NLLLoss: with class weights, or rows that are ignored, the mean is that of what
/// counts in all that makes one step.
class Nll final : public stage::Loss {
 public:
  Nll(const spec::loss::Nll& options, const stage::LossContext& context)
      : ignored_(options.ignore_index),
        weight_(weights_of(options.weight, "weight", context.outputs, context.device)) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const ClassRows rows = class_rows(logits, targets);
    const bool plain = !weight_ && !ignored_;
    at::Tensor value =
        at::nll_loss(rows.logits, rows.classes, weight_,
                     plain ? at::Reduction::Mean : at::Reduction::Sum, ignored_.value_or(kNoLabel));
    if (plain) return {std::move(value), {}};
    return {std::move(value), weight_of(rows.classes, weight_, ignored_)};
  }

  /// Divides by the rows, also where classes have weights, as cross_entropy does.
  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const auto rows = [&](const at::Tensor& classes) {
      return at::nll_loss(logits, classes, weight_, at::Reduction::None,
                          ignored_.value_or(kNoLabel));
    };
    return {at::lerp(rows(targets.partner), rows(targets.own), targets.lambda).mean(), {}};
  }

  [[nodiscard]] std::optional<std::int64_t> ignored_label() const override { return ignored_; }

 private:
  std::optional<std::int64_t> ignored_;
  std::optional<at::Tensor> weight_;
};

}  // namespace

void register_loss_nll(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::Nll>("nll", [](const auto& options, const auto& context) {
    return std::make_unique<Nll>(options, context);
  });
}

}  // namespace trainctl::stages
