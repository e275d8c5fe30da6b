#include "spec/metric/auroc.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/answers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {
namespace {

using spec::metric::AurocAverage;

/// The share of pairs, one row of the class and one of another, in which the class's row scores
/// higher; ties count half. `positive`, `negative`: rows by bin, lowest score first.
double area(const double* positive, const double* negative, std::int64_t bins) {
  double below = 0;
  double pairs = 0;
  double positives = 0;
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    pairs += positive[bin] * (below + negative[bin] / 2);
    below += negative[bin];
    positives += positive[bin];
  }
  return pairs / (positives * below);
}

double total(const double* counts, std::int64_t bins) {
  double sum = 0;
  for (std::int64_t bin = 0; bin < bins; ++bin) sum += counts[bin];
  return sum;
}

class Auroc final : public stage::Metric {
 public:
  Auroc(const spec::metric::Auroc& options, const stage::MetricContext& context)
      : options_(options),
        classes_(context.classes),
        targets_(context.targets),
        sums_(at::zeros({classes_ * 2 * options.bins},
                        at::TensorOptions(at::kDouble).device(context.device))),
        first_bins_(at::arange(classes_, at::TensorOptions(at::kLong).device(context.device)) *
                    (2 * options.bins)) {}

  [[nodiscard]] std::string name() const override { return "auroc"; }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    constexpr double kRange = 16;
    const auto bins = static_cast<double>(options_.bins);
    const at::Tensor bin = ((log_odds(logits) + kRange) * (bins / (2 * kRange)))
                               .nan_to_num(0)
                               .clamp(0, bins - 1)
                               .to(at::kLong);
    const at::Tensor place = bin + negatives(targets) * options_.bins + first_bins_;
    sums_.scatter_add_(0, place.flatten(), at::ones_like(place.flatten(), at::kDouble));
  }

  at::Tensor& sums() override { return sums_; }

  /// NaN where no class has rows both of it and of others.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();
    const double* sums = host.const_data_ptr<double>();
    double weighed = 0;
    double weights = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      const double* positive = sums + 2 * c * options_.bins;
      const double* negative = positive + options_.bins;
      const double rows = total(positive, options_.bins);
      if (rows == 0 || total(negative, options_.bins) == 0) continue;
      const double weight = options_.average == AurocAverage::weighted ? rows : 1;
      weighed += weight * area(positive, negative, options_.bins);
      weights += weight;
    }
    return weighed / weights;
  }

  void reset() override { sums_.zero_(); }

 private:
  /// [N, classes] float64, of the class against the others, or of the answer's yes.
  [[nodiscard]] at::Tensor log_odds(const at::Tensor& logits) const {
    const at::Tensor exact = logits.detach().to(at::kDouble);
    if (targets_ == spec::Targets::numbers) return exact;
    const at::Tensor log_p = exact.log_softmax(1);
    return log_p - log_p.exp().neg().log1p();
  }
  /// int64 [N, classes]: 1 where the row is of another class, or the answer is no.
  [[nodiscard]] at::Tensor negatives(const at::Tensor& targets) const {
    if (targets_ == spec::Targets::numbers) return says_yes(targets).logical_not().to(at::kLong);
    return 1 - at::one_hot(targets, classes_);
  }

  spec::metric::Auroc options_;
  std::int64_t classes_;  // or answers
  spec::Targets targets_;
  at::Tensor sums_;  // [class, of it or not, bin]
  at::Tensor first_bins_;
};

}  // namespace

void register_metric_auroc(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Auroc>("auroc", [](const auto& options, const auto& context) {
    return std::make_unique<Auroc>(options, context);
  });
}

}  // namespace trainctl::stages
