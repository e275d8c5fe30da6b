#include "spec/loss/smooth_l1.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/smooth_l1_loss.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.SmoothL1Loss: the mean over rows and outputs.
class SmoothL1 final : public stage::Loss {
 public:
  explicit SmoothL1(const spec::loss::SmoothL1& options) : beta_(options.beta) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {at::smooth_l1_loss(logits, as_numbers(logits, targets), at::Reduction::Mean, beta_),
            {}};
  }

 private:
  double beta_;
};

}  // namespace

void register_loss_smooth_l1(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::SmoothL1>("smooth_l1", [](const auto& options, const auto&) {
    return std::make_unique<SmoothL1>(options);
  });
}

}  // namespace trainctl::stages
