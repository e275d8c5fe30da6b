#include "spec/loss/huber.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/huber_loss.h>

namespace trainctl::stages {
namespace {

/// As torch.nn.HuberLoss: the mean over rows and outputs.
class Huber final : public stage::Loss {
 public:
  explicit Huber(const spec::loss::Huber& options) : delta_(options.delta) {}

  stage::LossValue forward(const at::Tensor& logits, const at::Tensor& targets) override {
    return {at::huber_loss(logits, as_numbers(logits, targets), at::Reduction::Mean, delta_), {}};
  }

 private:
  double delta_;
};

}  // namespace

void register_loss_huber(stage::Catalogue& catalogue) {
  catalogue.losses.add<spec::loss::Huber>(
      "huber", [](const auto& options, const auto&) { return std::make_unique<Huber>(options); });
}

}  // namespace trainctl::stages
