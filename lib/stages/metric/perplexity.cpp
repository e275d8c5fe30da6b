#include "spec/metric/perplexity.hpp"

#include "stages/builtin.hpp"
#include "stages/loss/targets.hpp"
#include "stages/metric/averaged.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>

namespace trainctl::stages {
namespace {

class Perplexity final : public Averaged {
 public:
  explicit Perplexity(at::Device device) : Averaged("perplexity", device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const ClassRows rows = class_rows(logits.detach(), targets);
    add(at::cross_entropy_loss(rows.logits, rows.classes, {}, at::Reduction::None));
  }
  [[nodiscard]] double value() const override { return std::exp(mean()); }
};

}  // namespace

void register_metric_perplexity(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Perplexity>(
      "perplexity", [](const auto&, const auto& context) {
        return std::make_unique<Perplexity>(context.device);
      });
}

}  // namespace trainctl::stages
