#include "spec/options/metric.hpp"
#include "stages/builtin.hpp"
#include "stages/metric/sums.hpp"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace trainctl::stages {
namespace {

class Mae final : public Averaged {
 public:
  explicit Mae(const stage::MetricContext& context) : Averaged("mae", context.device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    add((logits.detach() - targets).abs());
  }
};

class Rmse final : public Averaged {
 public:
  explicit Rmse(const stage::MetricContext& context) : Averaged("rmse", context.device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    add((logits.detach() - targets).square());
  }
  [[nodiscard]] double value() const override { return std::sqrt(Averaged::value()); }
};

/// Relative error of a float64 difference of sums: a smaller difference counts as no variance.
constexpr double kRounding = 1e-12;

/// The mean over outputs of 1 - residual / total sum of squares. All sums are float64, so that
/// batches and ranks can be added.
class R2 final : public stage::Metric {
 public:
  explicit R2(const stage::MetricContext& context)
      : outputs_(context.classes),
        sums_(
            at::zeros({3 * outputs_ + 1}, at::TensorOptions(at::kDouble).device(context.device))) {}

  [[nodiscard]] std::string name() const override { return "r2"; }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor exact = targets.to(at::kDouble);
    add(0, (logits.detach() - exact).square());
    add(1, exact);
    add(2, exact.square());
    sums_.select(0, 3 * outputs_).add_(targets.size(0));
  }

  at::Tensor& sums() override { return sums_; }

  /// NaN before the first row. If a target is constant, the score is 1 for exact predictions and 0
  /// otherwise, like scikit-learn's r2_score.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();  // collect_metrics() counts the host wait
    const double* sums = host.const_data_ptr<double>();
    const double rows = sums[3 * outputs_];
    double all = 0;
    for (std::int64_t k = 0; k < outputs_; ++k) {
      const double sum = sums[outputs_ + k], squares = sums[2 * outputs_ + k];
      const double total = squares - sum * sum / rows;
      const bool varies = !(total <= kRounding * squares);
      const double met = sums[k] == 0 ? 1 : 0 * sums[k];  // 0 * NaN keeps NaN
      all += varies ? 1 - sums[k] / total : met;
    }
    return all / static_cast<double>(outputs_);
  }

  void reset() override { sums_.zero_(); }

 private:
  void add(std::int64_t kind, const at::Tensor& values) {
    sums_.narrow(0, kind * outputs_, outputs_).add_(values.sum(0));
  }

  std::int64_t outputs_;
  at::Tensor sums_;
};

}  // namespace

void register_metric_regression(stage::Catalog& catalog) {
  auto& metrics = catalog.metrics;
  metrics.add_class<spec::metric::Mae, Mae>("mae");
  metrics.add_class<spec::metric::Rmse, Rmse>("rmse");
  metrics.add_class<spec::metric::R2, R2>("r2");
}

}  // namespace trainctl::stages
