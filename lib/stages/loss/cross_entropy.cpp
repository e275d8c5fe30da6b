#include "base/error.hpp"
#include "device/kernels.hpp"
#include "spec/options/loss.hpp"
#include "stages/builtin.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "stages/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>

#include <numeric>
#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kNoLabel = -100;  // default of ignore_index in torch

/// Follows torch.nn.CrossEntropyLoss. With class weights or ignored rows, the mean is over the
/// weights of all rows in an optimizer step.
///
/// A mixed row is a PyTorch probability target, p = lambda onehot(own) + (1 - lambda)
/// onehot(partner). Its loss, -sum_c weight_c ((1 - smoothing) p_c + smoothing / classes) log
/// softmax_c, is linear in p: it is lambda L(own) + (1 - lambda) L(partner), where L is the loss of
/// one class. As in PyTorch, the mean over such rows divides by their number, even with class
/// weights.
class CrossEntropy final : public stage::Loss {
 public:
  CrossEntropy(const spec::loss::CrossEntropy& options, const stage::LossContext& context)
      : label_smoothing_(options.label_smoothing),
        ignored_(options.ignore_index),
        weight_(weights_of(options.weight, "weight", context.outputs, context.device)),
        weight_sum_(std::accumulate(options.weight.begin(), options.weight.end(), 0.0)),
        accepts_16_bit_(context.device.is_cuda() && device::kernels_built()) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    if (targets.is_floating_point())
      return {entropy(logits, {.probabilities = targets}, at::Reduction::Mean), {}};
    const ClassRows rows = class_rows(logits, targets);
    const bool plain = !weight_ && !ignored_;
    at::Tensor value =
        entropy(rows.logits, {rows.classes}, plain ? at::Reduction::Mean : at::Reduction::Sum);
    if (plain) return {std::move(value), {}};
    return {std::move(value), weight_of(rows.classes, weight_, ignored_)};
  }

  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const ClassTargets both{targets.own, targets.partner, targets.lambda};
    if (fuses_entropy(logits, both)) return {fused(logits, both, at::Reduction::Mean), {}};
    const auto rows = [&](const at::Tensor& classes) {
      return entropy(logits, {classes}, at::Reduction::None);
    };
    return {at::lerp(rows(targets.partner), rows(targets.own), targets.lambda).mean(), {}};
  }

  [[nodiscard]] bool accepts_16_bit() const override { return accepts_16_bit_; }
  [[nodiscard]] std::optional<std::int64_t> ignored_label() const override { return ignored_; }

 private:
  [[nodiscard]] at::Tensor entropy(const at::Tensor& logits, const ClassTargets& targets,
                                   at::Reduction::Reduction reduction) const {
    const bool has_classes = targets.classes.defined();
    const std::int64_t ignored = ignored_.value_or(kNoLabel);
    // PyTorch refuses a label to ignore next to probabilities.
    const bool fuses = reduction != at::Reduction::None && (has_classes || ignored < 0);
    if (fuses && fuses_entropy(logits, targets)) return fused(logits, targets, reduction);
    return at::cross_entropy_loss(widen(logits),
                                  has_classes ? targets.classes : targets.probabilities, weight_,
                                  reduction, ignored, label_smoothing_);
  }

  [[nodiscard]] at::Tensor fused(const at::Tensor& logits, const ClassTargets& targets,
                                 at::Reduction::Reduction reduction) const {
    using Reduction = FusedEntropy::Reduction;
    const FusedEntropy options{
        .reduction = reduction == at::Reduction::Mean ? Reduction::mean : Reduction::sum,
        .label_smoothing = label_smoothing_,
        .ignored = ignored_,
        .weight = weight_.value_or(at::Tensor()),
        .weight_sum = weight_sum_};
    return in_context("loss 'cross_entropy'",
                      [&] { return fused_entropy(logits, targets, options); });
  }

  double label_smoothing_;
  std::optional<std::int64_t> ignored_;
  std::optional<at::Tensor> weight_;
  double weight_sum_;
  bool accepts_16_bit_;
};

/// Follows torch.nn.NLLLoss. With class weights or ignored rows, the mean is over the weights of
/// all rows in an optimizer step.
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

  /// Divides by the number of rows even with class weights, like cross_entropy.
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

/// Follows torch.nn.BCEWithLogitsLoss: the mean over rows and outputs.
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

  /// The loss is linear in the targets, so mixed rows get targets between 0 and 1.
  stage::LossValue forward_mixed(const at::Tensor& logits,
                                 const stage::MixedTargets& targets) override {
    const at::Tensor lambda = targets.lambda.unsqueeze(1).to(logits.scalar_type());
    return forward(logits, at::lerp(as_numbers(logits, targets.partner),
                                    as_numbers(logits, targets.own), lambda));
  }

 private:
  std::optional<at::Tensor> pos_weight_;
};

constexpr double kLeast = 1e-12;

/// The focal loss of Lin et al. 2017, equations 4 and 5: the mean of alpha (1 - p)^gamma times the
/// cross entropy, where p is the probability of the true class.
class Focal final : public stage::Loss {
 public:
  Focal(const spec::loss::Focal& options, const stage::LossContext& context)
      : gamma_(options.gamma), alpha_(options.alpha) {
    ENSURE(config, !alpha_ || context.targets == spec::Targets::numbers,
           "alpha applies only to targets from 0 to 1, but this data has classes\nhint: remove it");
  }

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor entropy =
        targets.dim() == logits.dim() ? of_numbers(logits, targets) : of_classes(logits, targets);
    // The derivative of a power below 1 is infinite at 0, where p is 1.
    const at::Tensor wrong = (1 - right(entropy, logits, targets)).clamp_min(kLeast);
    at::Tensor each = entropy * wrong.pow(gamma_);
    if (alpha_) each = each * (targets * *alpha_ + (1 - targets) * (1 - *alpha_));
    return {each.mean(), {}};
  }

 private:
  static at::Tensor of_classes(const at::Tensor& logits, const at::Tensor& targets) {
    const ClassRows rows = class_rows(logits, targets);
    return at::cross_entropy_loss(rows.logits, rows.classes, {}, at::Reduction::None);
  }
  static at::Tensor of_numbers(const at::Tensor& logits, const at::Tensor& targets) {
    return at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  }
  /// Returns the probability of the true class.
  static at::Tensor right(const at::Tensor& entropy, const at::Tensor& logits,
                          const at::Tensor& targets) {
    if (targets.dim() != logits.dim()) return (-entropy).exp();
    const at::Tensor one = logits.sigmoid();
    return one * targets + (1 - one) * (1 - targets);
  }

  double gamma_;
  std::optional<double> alpha_;
};

/// Follows torch.nn.KLDivLoss(reduction="batchmean") on log_softmax(logits): the sum over the
/// outputs, the mean over the rows.
class KlDivWithLogits final : public stage::Loss {
 public:
  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor sum = at::kl_div(logits.log_softmax(-1), targets, at::Reduction::Sum);
    return {sum / logits.size(0), {}};
  }
};

}  // namespace

void register_loss_cross_entropy(stage::Catalog& catalog) {
  auto& losses = catalog.losses;
  losses.add_class<spec::loss::CrossEntropy, CrossEntropy>("cross_entropy");
  losses.add_class<spec::loss::Nll, Nll>("nll");
  losses.add_class<spec::loss::BceWithLogits, BceWithLogits>("bce_with_logits");
  losses.add_class<spec::loss::Focal, Focal>("focal");
  losses.add_class<spec::loss::KlDivWithLogits, KlDivWithLogits>("kl_div_with_logits");
}

}  // namespace trainctl::stages
