#include "stages/metric/class_counts.hpp"

#include "base/error.hpp"
#include "stages/metric/answers.hpp"

#include <ATen/ops/argmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

using spec::metric::Average;

struct Counts {
  double right = 0;   // of the class and called so
  double called = 0;  // so
  double actual = 0;  // of the class

  Counts& operator+=(const Counts& other) {
    right += other.right;
    called += other.called;
    actual += other.actual;
    return *this;
  }
};

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double score_of(Score score, const Counts& counts) {
  if (score == Score::precision) return share(counts.right, counts.called);
  if (score == Score::recall) return share(counts.right, counts.actual);
  return share(2 * counts.right, counts.called + counts.actual);
}

class ClassMetric final : public stage::Metric {
 public:
  ClassMetric(std::string name, Score score, const spec::metric::Averaged& options,
              const stage::MetricContext& context)
      : name_(std::move(name)),
        score_(score),
        average_(options.average),
        classes_(context.classes),
        least_logit_(least_logit(options.threshold, context)),
        sums_(at::zeros({3 * classes_ + (least_logit_ ? 1 : 0)},
                        at::TensorOptions(at::kDouble).device(context.device))) {
    if (average_ != Average::binary) return;
    ENSURE(config, !least_logit_,
           "average: binary scores class 1 of two, and the data has numbers: choose macro");
    ENSURE(config, classes_ == 2,
           "average: binary scores class 1 of two, and the data has {} classes: choose macro",
           classes_);
  }

  [[nodiscard]] std::string name() const override { return name_; }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    if (least_logit_) return add(answers_of(logits, targets, *least_logit_));
    const at::Tensor called = logits.detach().argmax(1);
    const at::Tensor one = at::ones_like(targets, at::kDouble);
    add(0, targets, called.eq(targets).to(at::kDouble));
    add(1, called, one);
    add(2, targets, one);
  }

  at::Tensor& sums() override { return sums_; }

  /// NaN before the first row.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();
    const double* sums = host.const_data_ptr<double>();
    const auto of_class = [&](std::int64_t c) {
      return Counts{sums[c], sums[classes_ + c], sums[2 * classes_ + c]};
    };
    Counts all;
    double weighed = 0;
    double weights = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      const Counts counts = of_class(c);
      all += counts;
      const bool occurs = least_logit_ || counts.called + counts.actual > 0;
      const double weight = average_ == Average::weighted ? counts.actual : (occurs ? 1 : 0);
      weighed += weight * score_of(score_, counts);
      weights += weight;
    }
    if ((least_logit_ ? sums[3 * classes_] : all.actual) == 0)
      return std::numeric_limits<double>::quiet_NaN();
    if (average_ == Average::binary) return score_of(score_, of_class(1));
    return average_ == Average::micro ? score_of(score_, all) : share(weighed, weights);
  }

  void reset() override { sums_.zero_(); }

 private:
  /// Whole numbers: exact in any order.
  void add(std::int64_t kind, const at::Tensor& classes, const at::Tensor& counts) {
    sums_.narrow(0, kind * classes_, classes_).scatter_add_(0, classes, counts);
  }
  void add(const Answers& answers) {
    const auto add_columns = [this](std::int64_t kind, const at::Tensor& yes) {
      sums_.narrow(0, kind * classes_, classes_).add_(yes.sum(0));
    };
    add_columns(0, answers.called.logical_and(answers.actual));
    add_columns(1, answers.called);
    add_columns(2, answers.actual);
    sums_.select(0, 3 * classes_).add_(answers.actual.size(0));
  }

  std::string name_;
  Score score_;
  Average average_;
  std::int64_t classes_;
  std::optional<double> least_logit_;  // set: numbers are answers
  at::Tensor sums_;                    // [count, class]; of answers the rows stand behind them
};

}  // namespace

std::unique_ptr<stage::Metric> make_class_metric(std::string name, Score score,
                                                 const spec::metric::Averaged& options,
                                                 const stage::MetricContext& context) {
  return std::make_unique<ClassMetric>(std::move(name), score, options, context);
}

}  // namespace trainctl::stages
