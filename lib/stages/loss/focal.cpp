#include "spec/loss/focal.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <optional>

namespace trainctl::stages {
namespace {

constexpr double kLeast = 1e-12;

/// Lin et al. 2017, equation 4 and 5: the mean of alpha (1 - p)^gamma times the cross entropy,
/// where p is the probability of what is right.
class Focal final : public stage::Loss {
 public:
  Focal(const spec::loss::Focal& options, const stage::LossContext& context)
      : gamma_(options.gamma), alpha_(options.alpha) {
    ENSURE(config, !alpha_ || context.targets == spec::Targets::numbers,
           "alpha weighs ones against zeros, and this data has classes: remove it");
  }

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor entropy =
        targets.dim() == logits.dim() ? of_numbers(logits, targets) : of_classes(logits, targets);
    // The slope of a power below 1 is infinite at 0, where a row is certain.
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
  /// The probability of what is right.
  static at::Tensor right(const at::Tensor& entropy, const at::Tensor& logits,
                          const at::Tensor& targets) {
    if (targets.dim() != logits.dim()) return (-entropy).exp();
    const at::Tensor one = logits.sigmoid();
    return one * targets + (1 - one) * (1 - targets);
  }

  double gamma_;
  std::optional<double> alpha_;
};

}  // namespace

void register_loss_focal(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::Focal>("focal", [](const auto& options, const auto& context) {
    return std::make_unique<Focal>(options, context);
  });
}

}  // namespace trainctl::stages
