#include "device/host_read.hpp"
#include "spec/options/metric.hpp"
#include "stage/stages.hpp"
#include "stages/builtin.hpp"
#include "stages/targets.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

namespace trainctl::stages {
namespace {

using spec::metric::AurocAverage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Scores with the number of positive and negative rows that have each.
struct ScoreCounts {
  at::Tensor scores;    // float64 [classes, points], like the other members
  at::Tensor positive;  // number of rows of the class
  at::Tensor negative;  // number of rows of other classes
};

ScoreCounts joined(const ScoreCounts& a, const ScoreCounts& b) {
  return {at::cat({a.scores, b.scores}, 1), at::cat({a.positive, b.positive}, 1),
          at::cat({a.negative, b.negative}, 1)};
}

ScoreCounts copy_to(const ScoreCounts& points, at::Device to) {
  const auto move = [to](const at::Tensor& tensor) {
    return device::copy_to(tensor, to, "scores of a metric");
  };
  return {move(points.scores), move(points.positive), move(points.negative)};
}

/// Sorts each class's points by ascending score.
ScoreCounts sorted(const ScoreCounts& points) {
  auto [scores, order] = points.scores.sort(/*stable=*/true, /*dim=*/1, /*descending=*/false);
  return {scores, points.positive.gather(1, order), points.negative.gather(1, order)};
}

/// Merges the points of each class into at most `bins` points of about equally many rows. A bin has
/// the largest score of its points.
ScoreCounts binned_by_quantile(const ScoreCounts& points, std::int64_t bins) {
  const ScoreCounts from = sorted(points);
  const at::Tensor rows = from.positive + from.negative;
  const at::Tensor up_to = rows.cumsum(1);
  const at::Tensor total = up_to.narrow(1, up_to.size(1) - 1, 1).clamp_min(1);
  const at::Tensor bin =
      ((up_to - rows) * static_cast<double>(bins) / total).to(at::kLong).clamp(0, bins - 1);
  const at::Tensor zeros = at::zeros({rows.size(0), bins}, rows.options());
  // A point without rows must not change a bin's score.
  const at::Tensor scores = at::where(rows > 0, from.scores, at::full_like(rows, -kInfinity));
  return {at::full_like(zeros, -kInfinity).scatter_reduce(1, bin, scores, "amax"),
          zeros.scatter_add(1, bin, from.positive), zeros.scatter_add(1, bin, from.negative)};
}

struct Area {
  double value = 0;
  double positives = 0;
  double negatives = 0;
};

/// Returns the share of pairs of a positive and a negative row in which the positive one has the
/// higher score; ties count half. NaN if a row's score is NaN. `points` must be sorted and on the
/// CPU.
Area area_of(const ScoreCounts& points, std::int64_t of_class) {
  const at::Tensor scores = points.scores[of_class].contiguous();
  const at::Tensor positive = points.positive[of_class].contiguous();
  const at::Tensor negative = points.negative[of_class].contiguous();
  const auto* score = scores.const_data_ptr<double>();
  const auto* up = positive.const_data_ptr<double>();
  const auto* down = negative.const_data_ptr<double>();
  Area area;
  double pairs = 0;
  for (std::int64_t i = 0, next = 0; i < scores.numel(); i = next) {
    double tied_up = 0;
    double tied_down = 0;
    for (next = i; next < scores.numel() && (next == i || score[next] == score[i]); ++next) {
      tied_up += up[next];
      tied_down += down[next];
    }
    if (std::isnan(score[i]) && tied_up + tied_down > 0) pairs = score[i];
    pairs += tied_up * (area.negatives + tied_down / 2);
    area.positives += tied_up;
    area.negatives += tied_down;
  }
  area.value = pairs / (area.positives * area.negatives);
  return area;
}

/// Returns log(p / (1 - p)) for each class's probability p as float64 [N, classes]: the logit minus
/// the log-sum-exp of the others, which stays precise for p near 0 or 1.
at::Tensor log_odds_of_classes(const at::Tensor& logits) {
  if (logits.size(1) == 2) return logits - logits.flip(1);  // keeps ties exact
  auto [largest, place] = logits.max(1, /*keepdim=*/true);
  const at::Tensor shares = (logits - largest).exp();
  // For the class of the largest logit the subtraction would cancel, so the others are summed
  // directly.
  const at::Tensor rest = logits.scatter(1, place, -kInfinity).logsumexp(1, /*keepdim=*/true);
  const at::Tensor others = (shares.sum(1, /*keepdim=*/true) - shares).log() + largest;
  return logits - others.scatter(1, place, rest);
}

/// Stores the score of each row, so that the area is exact however the rows are split into batches
/// and ranks. `sums()` holds: [points per class, their scores, positive and negative counts, then
/// each row's scores and labels].
class Auroc final : public stage::GrowingMetric {
 public:
  Auroc(const spec::metric::Auroc& options, const stage::MetricContext& context)
      : options_(options),
        classes_(context.classes),
        targets_(context.targets),
        number_(at::TensorOptions(at::kDouble).device(context.device)) {
    reset();
  }

  [[nodiscard]] std::string name() const override { return "auroc"; }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor exact = logits.detach().to(at::kDouble);
    if (targets_ == spec::Targets::numbers) {
      rows_.push_back(at::cat({exact, is_positive(targets).to(at::kDouble)}, 1));
    } else {
      rows_.push_back(
          at::cat({log_odds_of_classes(exact), targets.detach().to(at::kDouble).unsqueeze(1)}, 1));
    }
    scores_ += exact.numel();
    if (scores_ <= options_.max_scores) return;
    // On the host, because CUDA has no deterministic kernel for scatter_add.
    points_ =
        copy_to(binned_by_quantile(copy_to(points(), at::kCPU), options_.bins), number_.device());
    rows_.clear();
    scores_ = 0;
  }

  void keep_last_update_if(const at::Tensor& condition) override {
    at::Tensor labels = rows_.back().narrow(1, classes_, labels_per_row());
    labels.copy_(at::where(condition, labels, at::full_like(labels, kLeftOut)));
  }

  at::Tensor& sums() override {
    std::vector<at::Tensor> parts{
        at::full({1}, static_cast<double>(points_.scores.size(1)), number_),
        points_.scores.flatten(), points_.positive.flatten(), points_.negative.flatten()};
    for (const at::Tensor& rows : rows_) parts.push_back(rows.flatten());
    sums_ = at::cat(parts);
    return sums_;
  }

  void merge(const at::Tensor& sums) override {
    const at::Tensor all = device::copy_to(sums, number_.device(), "scores of a metric");
    const auto count =
        static_cast<std::int64_t>(device::value_of<double>(all[0], "scores of a metric"));
    const auto part = [&](std::int64_t i) {
      return all.narrow(0, 1 + i * classes_ * count, classes_ * count).view({classes_, count});
    };
    points_ = joined(points_, {part(0), part(1), part(2)});
    const std::int64_t begin = 1 + 3 * classes_ * count;
    rows_.push_back(
        all.narrow(0, begin, all.numel() - begin).view({-1, classes_ + labels_per_row()}).clone());
    scores_ += rows_.back().size(0) * classes_;
  }

  /// NaN if no class has both positive and negative rows.
  [[nodiscard]] double value() const override {
    const ScoreCounts host = sorted(copy_to(points(), at::kCPU));
    double weighed = 0;
    double weights = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      const Area area = area_of(host, c);
      if (area.positives == 0 || area.negatives == 0) continue;
      const double weight = options_.average == AurocAverage::weighted ? area.positives : 1;
      weighed += weight * area.value;
      weights += weight;
    }
    return weighed / weights;
  }

  void reset() override {
    const at::Tensor none = at::empty({classes_, 0}, number_);
    points_ = {none, none, none};
    rows_.clear();
    scores_ = 0;
  }

 private:
  static constexpr double kLeftOut = -1;  // label of a row that does not count

  /// One class index, or one yes (1) or no (0) per output.
  [[nodiscard]] std::int64_t labels_per_row() const {
    return targets_ == spec::Targets::numbers ? classes_ : 1;
  }

  /// Returns all stored scores as points.
  [[nodiscard]] ScoreCounts points() const {
    if (rows_.empty()) return points_;
    const at::Tensor rows = at::cat(rows_);
    const at::Tensor scores = rows.narrow(1, 0, classes_).t();
    const at::Tensor labels = rows.narrow(1, classes_, labels_per_row()).t();
    const at::Tensor yes = targets_ == spec::Targets::numbers
                               ? labels.eq(1)
                               : labels.eq(at::arange(classes_, number_).unsqueeze(1));
    const at::Tensor counts = labels.ne(kLeftOut);
    return joined(points_, {scores, yes.to(at::kDouble),
                            yes.logical_not().logical_and(counts).to(at::kDouble)});
  }

  spec::metric::Auroc options_;
  std::int64_t classes_;  // or outputs with yes/no targets
  spec::Targets targets_;
  at::TensorOptions number_;
  ScoreCounts points_;            // binned rows from before the last overflow of max_scores
  std::vector<at::Tensor> rows_;  // float64 [rows, classes + labels_per_row()], one per batch since
  std::int64_t scores_ = 0;       // number of scores in rows_
  at::Tensor sums_;
};

}  // namespace

void register_metric_auroc(stage::Catalog& catalog) {
  catalog.metrics.add_class<spec::metric::Auroc, Auroc>("auroc");
}

}  // namespace trainctl::stages
