#include "spec/metric/confusion_matrix.hpp"

#include "stages/builtin.hpp"

#include <ATen/ops/argmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <limits>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kMostClasses = 2000;

/// [class, what it was called], counts in float64.
class ConfusionMatrix final : public stage::Metric {
 public:
  explicit ConfusionMatrix(const stage::MetricContext& context) : classes_(context.classes) {
    ENSURE(config, classes_ <= kMostClasses, "a table of {} x {} classes is of no use: {} at most",
           classes_, classes_, kMostClasses);
    sums_ = at::zeros({classes_ * classes_}, at::TensorOptions(at::kDouble).device(context.device));
  }

  [[nodiscard]] std::string name() const override { return "confusion_matrix"; }
  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor place = targets * classes_ + logits.detach().argmax(1);
    sums_.scatter_add_(0, place, at::ones_like(place, at::kDouble));
  }
  at::Tensor& sums() override { return sums_; }
  [[nodiscard]] double value() const override { return std::numeric_limits<double>::quiet_NaN(); }
  void reset() override { sums_.zero_(); }
  [[nodiscard]] std::int64_t table_rows() const override { return classes_; }

 private:
  std::int64_t classes_;
  at::Tensor sums_;
};

}  // namespace

void register_metric_confusion_matrix(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::ConfusionMatrix>(
      "confusion_matrix",
      [](const auto&, const auto& context) { return std::make_unique<ConfusionMatrix>(context); });
}

}  // namespace trainctl::stages
