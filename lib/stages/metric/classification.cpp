#include "base/error.hpp"
#include "spec/options/metric.hpp"
#include "stages/builtin.hpp"
#include "stages/loss/fused_entropy.hpp"
#include "stages/metric/sums.hpp"
#include "stages/targets.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace trainctl::stages {
namespace {

using spec::metric::Average;

enum class Score { precision, recall, f1, iou };

struct Counts {
  double right = 0;   // rows of the class with this prediction
  double called = 0;  // rows with this prediction
  double actual = 0;  // rows of the class

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
  if (score == Score::iou) return share(counts.right, counts.called + counts.actual - counts.right);
  return share(2 * counts.right, counts.called + counts.actual);
}

/// A score computed from three counts per class: rows of the class, rows predicted as the class,
/// and rows that are both. Exact over batches and ranks. A class without rows or predictions scores
/// 0, as in sklearn. For numeric targets each output is a class with yes/no answers, and the mean
/// includes every output. Throws Error(config) if `average` is binary but there are not two
/// classes, and for a threshold with class targets.
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
           "'average: binary' needs labels of two classes, but the labels are numbers\nhint: set "
           "'average: macro', which treats each number as a yes/no label");
    ENSURE(config, classes_ == 2,
           "'average: binary' needs labels of two classes, but the data has {} classes\nhint: set "
           "'average: macro'",
           classes_);
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool accepts_16_bit() const override { return true; }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    if (least_logit_) return add(answers_of(logits, targets, *least_logit_));
    const auto [rows, classes] = class_rows(logits.detach(), targets);
    const at::Tensor called = rows.argmax(1);
    const at::Tensor one = at::ones_like(classes, at::kDouble);
    add(0, classes, called.eq(classes).to(at::kDouble));
    add(1, called, one);
    add(2, classes, one);
  }

  at::Tensor& sums() override { return sums_; }

  /// Returns NaN before the first row.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();  // collect_metrics() counts the host wait
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
  /// Counts are integers, so the order of additions does not matter.
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
  std::optional<double> least_logit_;  // set: targets are yes/no answers
  at::Tensor sums_;  // [count, class]; for yes/no answers the number of rows follows
};

class Accuracy final : public Averaged {
 public:
  Accuracy(const spec::metric::Accuracy& options, const stage::MetricContext& context)
      : Averaged("accuracy", context.device),
        least_logit_(least_logit(options.threshold, context)) {}

  [[nodiscard]] bool accepts_16_bit() const override { return true; }
  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    if (!least_logit_) return add_hits(logits.detach().argmax(1).eq(targets), targets.size(0));
    const Answers answers = answers_of(logits, targets, *least_logit_);
    add_hits(answers.called.eq(answers.actual), targets.numel());
  }

 private:
  std::optional<double> least_logit_;  // set: targets are yes/no answers
};

class TopKAccuracy final : public Averaged {
 public:
  TopKAccuracy(const spec::metric::TopKAccuracy& options, const stage::MetricContext& context)
      : Averaged(fmt::format("top_{}_accuracy", options.k), context.device), k_(options.k) {
    ENSURE(config, k_ <= context.classes, "k must be at most {1}, the number of classes, got {0}",
           k_, context.classes);
  }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor best =
        std::get<1>(at::topk(logits.detach(), k_, 1, /*largest=*/true, /*sorted=*/false));
    add_hits(best.eq(targets.unsqueeze(1)), targets.size(0));
  }

 private:
  std::int64_t k_;
};

constexpr std::int64_t kMostClasses = 2000;

/// Counts as float64 [true class, predicted class].
class ConfusionMatrix final : public stage::Metric {
 public:
  explicit ConfusionMatrix(const stage::MetricContext& context) : classes_(context.classes) {
    ENSURE(config, classes_ <= kMostClasses,
           "a confusion matrix takes at most {} classes, got {}\nhint: remove the metric",
           kMostClasses, classes_);
    sums_ = at::zeros({classes_ * classes_}, at::TensorOptions(at::kDouble).device(context.device));
  }

  [[nodiscard]] std::string name() const override { return "confusion_matrix"; }
  [[nodiscard]] bool accepts_16_bit() const override { return true; }
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

class Perplexity final : public Averaged {
 public:
  explicit Perplexity(const stage::MetricContext& context)
      : Averaged("perplexity", context.device) {}

  [[nodiscard]] bool accepts_16_bit() const override { return true; }
  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const ClassRows rows = class_rows(logits.detach(), targets);
    if (fuses_entropy(rows.logits, {rows.classes}))
      return add(fused_entropy(rows.logits, {rows.classes}, {FusedEntropy::Reduction::none}));
    add(at::cross_entropy_loss(widen(rows.logits), rows.classes, {}, at::Reduction::None));
  }
  [[nodiscard]] double value() const override { return std::exp(Averaged::value()); }
};

}  // namespace

void register_metric_classification(stage::Catalog& catalog) {
  auto& metrics = catalog.metrics;
  metrics.add_class<spec::metric::Accuracy, Accuracy>("accuracy");
  metrics.add_class<spec::metric::TopKAccuracy, TopKAccuracy>("top_k_accuracy");
  metrics.add_class<spec::metric::Precision, ClassMetric>("precision", "precision",
                                                          Score::precision);
  metrics.add_class<spec::metric::Recall, ClassMetric>("recall", "recall", Score::recall);
  metrics.add_class<spec::metric::F1, ClassMetric>("f1", "f1", Score::f1);
  // The mean over the classes that occur; Dice is the F1 score of pixels.
  const auto add_overlap = [&]<class Options>(const char* name, Score score) {
    metrics.add<Options>(name, [=](const Options&, const stage::MetricContext& context) {
      return std::make_unique<ClassMetric>(name, score, spec::metric::Averaged(), context);
    });
  };
  add_overlap.operator()<spec::metric::MeanIou>("mean_iou", Score::iou);
  add_overlap.operator()<spec::metric::Dice>("dice", Score::f1);
  metrics.add_class<spec::metric::ConfusionMatrix, ConfusionMatrix>("confusion_matrix");
  metrics.add_class<spec::metric::Perplexity, Perplexity>("perplexity");
}

}  // namespace trainctl::stages
