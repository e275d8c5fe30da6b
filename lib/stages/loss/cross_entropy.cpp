#include "spec/loss/cross_entropy.hpp"

#include "base/error.hpp"
#include "stages/builtin.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/lerp.h>

#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kNoLabel = -100;  // torch's default of ignore_index

/// As torch.nn.CrossEntropyLoss: with class weights, or rows that are ignored, the mean is that of
/// what counts in all that makes one step.
///
/// A mixed row is one of PyTorch's probability targets, p = lambda onehot(own) + (1 - lambda)
/// onehot(partner). Its loss, -sum_c weight_c ((1 - smoothing) p_c + smoothing / classes) log
/// softmax_c, is linear in p: it is lambda L(own) + (1 - lambda) L(partner), where L is the loss of
/// one class. As PyTorch has it, the mean of such rows divides by their number, also where classes
/// have weights.
class CrossEntropy final : public stage::Loss {
 public:
  CrossEntropy(const spec::loss::CrossEntropy& options, const stage::LossContext& context)
      : label_smoothing_(options.label_smoothing),
        ignored_(options.ignore_index),
        weight_(weights_of(options.weight, "weight", context.outputs, context.device)) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    if (targets.is_floating_point())
      return {entropy(logits, targets, at::Reduction::Mean), {}};  // probabilities
    const ClassRows rows = class_rows(logits, targets);
    const bool plain = !weight_ && !ignored_;
    at::Tensor value =
        entropy(rows.logits, rows.classes, plain ? at::Reduction::Mean : at::Reduction::Sum);
    if (plain) return {std::move(value), {}};
    return {std::move(value), weight_of(rows.classes, weight_, ignored_)};
  }

  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const auto rows = [&](const at::Tensor& classes) {
      return entropy(logits, classes, at::Reduction::None);
    };
    return {at::lerp(rows(targets.partner), rows(targets.own), targets.lambda).mean(), {}};
  }

  [[nodiscard]] std::optional<std::int64_t> ignored_label() const override { return ignored_; }

 private:
  [[nodiscard]] at::Tensor entropy(const at::Tensor& logits, const at::Tensor& targets,
                                   at::Reduction::Reduction reduction) const {
    if (!weight_ && reduction != at::Reduction::None && fuses_entropy(logits, targets))
      return fused(logits, targets, reduction);
    return at::cross_entropy_loss(logits, targets, weight_, reduction, ignored_.value_or(kNoLabel),
                                  label_smoothing_);
  }

  [[nodiscard]] at::Tensor fused(const at::Tensor& logits, const at::Tensor& classes,
                                 at::Reduction::Reduction reduction) const {
    using Reduction = FusedEntropy::Reduction;
    const FusedEntropy options{
        .reduction = reduction == at::Reduction::Mean ? Reduction::mean : Reduction::sum,
        .label_smoothing = label_smoothing_,
        .ignored = ignored_};
    return in_context("loss 'cross_entropy'",
                      [&] { return fused_entropy(logits, classes, options); });
  }

  double label_smoothing_;
  std::optional<std::int64_t> ignored_;
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
