#include "spec/loss/cross_entropy.hpp"

#include "stages/builtin.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kIgnoreIndex = -100;  // torch's default

/// As torch.nn.CrossEntropyLoss: with class weights the mean is weighted, too, over all that makes
/// one step.
///
/// A mixed row is one of PyTorch's probability targets, p = lambda onehot(own) + (1 - lambda)
/// onehot(partner). Its loss, -sum_c weight_c ((1 - smoothing) p_c + smoothing / classes) log
/// softmax_c, is linear in p: it is lambda L(own) + (1 - lambda) L(partner), where L is the loss of
/// one class. As PyTorch has it, the mean of such rows divides by their number, also where classes
/// have weights.
class CrossEntropy final : public stage::Loss {
 public:
  CrossEntropy(const spec::loss::CrossEntropy& options, const stage::LossContext& context)
      : label_smoothing_(options.label_smoothing) {
    const std::vector<double>& weight = options.weight;
    if (weight.empty()) return;
    ENSURE(config, static_cast<std::int64_t>(weight.size()) == context.classes,
           "weight has {} values, but the data has {} classes: give one for each class",
           weight.size(), context.classes);
    ENSURE(config, std::any_of(weight.begin(), weight.end(), [](double w) { return w > 0; }),
           "weight holds only zeros: give at least one class a weight above 0");
    weight_ = at::tensor(weight, at::kFloat).to(context.device);
  }

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const auto reduction = weight_ ? at::Reduction::Sum : at::Reduction::Mean;
    at::Tensor value =
        at::cross_entropy_loss(logits, targets, weight_, reduction, kIgnoreIndex, label_smoothing_);
    if (!weight_) return {std::move(value), {}};
    return {std::move(value), weight_->index_select(0, targets).sum()};
  }

  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const auto rows = [&](const at::Tensor& classes) {
      return at::cross_entropy_loss(logits, classes, weight_, at::Reduction::None, kIgnoreIndex,
                                    label_smoothing_);
    };
    return {at::lerp(rows(targets.partner), rows(targets.own), targets.lambda).mean(), {}};
  }

 private:
  double label_smoothing_;
  std::optional<at::Tensor> weight_;
};

}  // namespace

void register_loss_cross_entropy(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::CrossEntropy>(
      "cross_entropy", [](const auto& options, const auto& context) {
        return std::make_unique<CrossEntropy>(options, context);
      });
}

}  // namespace trainctl::stages
