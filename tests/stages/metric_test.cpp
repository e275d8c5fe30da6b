#include "spec/experiment/experiment.hpp"
#include "stage/stages.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

using namespace trainctl;
using stages_test::tensor;

namespace {

std::unique_ptr<stage::Metric> make_metric(const std::string& type, const std::string& options,
                                           stage::MetricContext context = {6}) {
  return stages::builtin_catalog().metrics.build(stages_test::stage("metric", type, options),
                                                 context);
}

std::unique_ptr<stage::Metric> make_metric(const std::string& type, const std::string& options,
                                           std::int64_t classes) {
  return make_metric(type, options, stage::MetricContext{classes});
}

/// Makes a metric for `labels` yes/no labels per row.
std::unique_ptr<stage::Metric> make_multilabel(const std::string& type, const std::string& options,
                                               std::int64_t labels) {
  return make_metric(type, options, {labels, at::kCPU, spec::Targets::numbers});
}

stage::MetricContext context_for(const at::Tensor& logits, const at::Tensor& targets) {
  return {logits.size(1), at::kCPU,
          targets.is_floating_point() ? spec::Targets::numbers : spec::Targets::classes};
}

void check_metrics(const Json& cases, const at::Tensor& logits, const at::Tensor& targets) {
  REQUIRE_FALSE(cases.empty());
  for (const Json& run : cases) {
    INFO(run["type"] << " " << run["options"]);
    const stage::MetricContext context = context_for(logits, targets);
    const auto whole = make_metric(run["type"], run["options"].dump(), context);
    CHECK(std::isnan(whole->value()));
    whole->update(logits, targets);
    CHECK(whole->value() == Approx(run["value"].get<double>()).epsilon(1e-5));
    const auto parts = make_metric(run["type"], run["options"].dump(), context);
    for (const auto& [begin, end] :
         {std::pair<std::int64_t, std::int64_t>(0, 5), {5, 6}, {6, logits.size(0)}}) {
      parts->update(logits.slice(0, begin, end), targets.slice(0, begin, end));
    }
    CHECK(mismatch(parts->sums(), whole->sums()) == "");
    CHECK(parts->value() == Approx(whole->value()).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("metrics: values equal PyTorch's and scikit-learn's, in one batch or in three") {
  const Json golden = stages_test::golden("metrics");
  check_metrics(golden["cases"], tensor(golden["logits"]), tensor(golden["targets"], at::kLong));
  const Json& two = golden["of_two"];
  check_metrics(two["cases"], tensor(two["logits"]), tensor(two["targets"], at::kLong));
  const Json& expected = golden["of_numbers"];
  check_metrics(expected["cases"], tensor(expected["logits"]), tensor(expected["targets"]));
}

TEST_CASE("metrics: multilabel values equal scikit-learn's, in one batch or in three") {
  const Json golden = stages_test::golden("answers");
  check_metrics(golden["cases"], tensor(golden["logits"]), tensor(golden["targets"]));
  check_metrics(golden["rare_cases"], tensor(golden["rare_logits"]),
                tensor(golden["rare_targets"]));
}

TEST_CASE("metrics: multilabel sums of two ranks give the value of all rows") {
  const at::Tensor logits = tensor(Json{{1, -1}, {2, 3}, {-1, 4}, {-2, -1}, {1, 0}});
  const at::Tensor answers = tensor(Json{{1, 0}, {0, 1}, {0, 1}, {1, 1}, {1, 0}});
  for (const std::string type : {"accuracy", "precision", "recall", "f1", "auroc"}) {
    INFO(type);
    const auto all = make_multilabel(type, "{}", 2);
    const auto one = make_multilabel(type, "{}", 2);
    const auto other = make_multilabel(type, "{}", 2);
    all->update(logits, answers);
    one->update(logits.slice(0, 0, 2), answers.slice(0, 0, 2));
    other->update(logits.slice(0, 2, 5), answers.slice(0, 2, 5));
    stage::merge(*one, other->sums());
    CHECK(one->sums().equal(all->sums()));
    CHECK(one->value() == all->value());
    all->reset();
    CHECK(std::isnan(all->value()));
  }
}

TEST_CASE("metrics: a multilabel logit of 0 predicts negative, and f1 without positives is 0") {
  const at::Tensor logits = tensor(Json{{0, 1e-6}, {-3, -1e-6}});
  const auto accuracy = make_multilabel("accuracy", "{}", 2);
  accuracy->update(logits, tensor(Json{{0, 1}, {1, 0}}));
  CHECK(accuracy->value() == 0.75);
  for (const std::string average : {"macro", "weighted", "micro"}) {
    const auto f1 = make_multilabel("f1", "{average: " + average + "}", 2);
    f1->update(logits, tensor(Json{{0, 0}, {0, 0}}));
    CHECK(f1->value() == 0);
  }
}

TEST_CASE("accuracy: the threshold is not rounded to the dtype of the logits") {
  constexpr double kJustAbove = 0.84765625;  // the first bfloat16 above log(0.7 / 0.3) = 0.8473
  const at::Tensor logits = at::full({1, 1}, kJustAbove, at::kBFloat16);
  const auto accuracy = make_multilabel("accuracy", "{threshold: 0.7}", 1);
  accuracy->update(logits, tensor(Json{{1}}));
  CHECK(accuracy->value() == 1);
}

TEST_CASE("auroc: a label without positives is excluded from the mean") {
  const at::Tensor logits = tensor(Json{{1, 5}, {-1, -5}, {2, 0}});
  const auto auroc = make_multilabel("auroc", "{}", 2);
  auroc->update(logits, tensor(Json{{0, 0}, {0, 0}, {1, 0}}));
  CHECK(auroc->value() == 1);
  const auto none = make_multilabel("auroc", "{}", 2);
  none->update(logits, tensor(Json{{0, 0}, {0, 0}, {0, 0}}));
  CHECK(std::isnan(none->value()));
}

TEST_CASE("auroc: values equal scikit-learn's for ties and for log-odds of any size") {
  for (const Json& run : stages_test::golden("auroc")["cases"]) {
    INFO(run["name"]);
    const bool answers = run.contains("answers");
    const at::Tensor logits = tensor(run["logits"]);
    const at::Tensor targets = tensor(run["targets"], answers ? at::kFloat : at::kLong);
    const std::string options = "{average: " + run["average"].get<std::string>() + "}";
    const auto build = [&] { return make_metric("auroc", options, context_for(logits, targets)); };
    const auto whole = build();
    whole->update(logits, targets);
    CHECK(whole->value() == Approx(run["value"].get<double>()).epsilon(1e-12));

    const auto first = build();
    const auto second = build();
    for (std::int64_t row = 0; row < logits.size(0); row += 7) {
      const std::int64_t end = std::min(row + 7, logits.size(0));
      (row % 2 == 0 ? first : second)
          ->update(logits.slice(0, row, end), targets.slice(0, row, end));
    }
    const auto joined = build();
    stage::merge(*joined, second->sums());
    stage::merge(*joined, first->sums());
    CHECK(joined->value() == whole->value());
    CHECK(stage::as_growing(*joined) != nullptr);
  }
}

TEST_CASE("auroc: beyond max_scores the value is that of quantile bins, for scores of any scale") {
  at::manual_seed(3);
  for (const double scale : {1e-4, 1.0, 1e4}) {
    INFO("scale " << scale);
    const at::Tensor targets = at::randint(2, {20'000}, at::kLong);
    const at::Tensor gain = targets.to(at::kDouble).unsqueeze(1) * 1.5;
    const at::Tensor logits =
        at::cat({at::zeros({20'000, 1}, at::kDouble), at::randn({20'000, 1}, at::kDouble) + gain},
                1) *
        scale;
    const auto exact = make_metric("auroc", "{}", 2);
    const auto binned = make_metric("auroc", "{max_scores: 3000, bins: 1000}", 2);
    for (std::int64_t row = 0; row < 20'000; row += 1000) {
      for (const auto* metric : {&exact, &binned})
        (*metric)->update(logits.slice(0, row, row + 1000), targets.slice(0, row, row + 1000));
    }
    CHECK(exact->value() == Approx(0.855).margin(0.02));
    CHECK(binned->value() != exact->value());
    CHECK(binned->value() == Approx(exact->value()).margin(0.002));
    CHECK(binned->sums().numel() < exact->sums().numel() / 3);
    const auto resumed = make_metric("auroc", "{max_scores: 3000, bins: 1000}", 2);
    stage::merge(*resumed, binned->sums());
    CHECK(resumed->value() == binned->value());
  }
}

TEST_CASE("auroc: a discarded batch does not count, and a NaN score gives NaN") {
  const at::Tensor logits = tensor(Json{{0, 1}, {0, 3}, {0, 2}, {0, -1}});
  const at::Tensor targets = tensor(Json{1, 0, 1, 0}, at::kLong);
  const auto metric = make_metric("auroc", "{}", 2);
  metric->update(logits, targets);
  CHECK(metric->value() == 0.5);
  metric->update(tensor(Json{{0, 9}}), tensor(Json{0}, at::kLong));
  stage::as_growing(*metric)->keep_last_update_if(at::full({}, false, at::kBool));
  CHECK(metric->value() == 0.5);
  metric->update(tensor(Json{{0, 9}}), tensor(Json{1}, at::kLong));
  stage::as_growing(*metric)->keep_last_update_if(at::full({}, true, at::kBool));
  CHECK(metric->value() == Approx(4 / 6.0));
  metric->update(tensor(Json{{0, std::nan("")}}), tensor(Json{1}, at::kLong));
  CHECK(std::isnan(metric->value()));
}

TEST_CASE("metrics: options for the other kind of labels are an error") {
  for (const std::string type : {"accuracy", "precision", "recall", "f1"})
    CHECK_THROWS_WITH(make_metric(type, "{threshold: 0.3}"), Contains("this data has classes"));
  CHECK_THROWS_WITH(make_multilabel("f1", "{average: binary}", 2),
                    Contains("the labels are numbers\nhint: set 'average: macro'"));
}

TEST_CASE("f1: average=binary with more than two classes is an error") {
  CHECK_THROWS_WITH(make_metric("f1", "{average: binary}"), Contains("the data has 6 classes"));
}

TEST_CASE("r2: constant targets give 1 for exact predictions, otherwise 0") {
  const at::Tensor targets = at::full({100, 1}, 0.1);
  const auto score = make_metric("r2", "{}", 1);
  score->update(targets + 0.3, targets);
  CHECK(score->value() == 0);
  score->reset();
  score->update(targets, targets);
  CHECK(score->value() == 1);
  score->update(at::full({100, 1}, std::nan("")), targets);
  CHECK(std::isnan(score->value()));
}

TEST_CASE("mode_for: losses and errors are minimized, and other metrics maximized") {
  for (const char* name : {"val/loss", "val/mae", "val/rmse", "train/perplexity"})
    CHECK(spec::mode_for(name) == spec::Mode::min);
  for (const char* name : {"val/accuracy", "val/r2", "val/f1"})
    CHECK(spec::mode_for(name) == spec::Mode::max);
}

TEST_CASE("accuracy: the sums of two ranks give the value of all rows") {
  const auto one = make_metric("accuracy", "{}", 2);
  const auto other = make_metric("accuracy", "{}", 2);
  one->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), tensor(Json{1, 1}, at::kLong));
  other->update(tensor(Json{{0.1, 0.9}, {0.2, 0.8}, {0.6, 0.4}}), tensor(Json{1, 1, 0}, at::kLong));
  CHECK(one->sums().scalar_type() == at::kDouble);
  one->sums().add_(other->sums());
  CHECK(one->value() == 0.8);
}

TEST_CASE("accuracy: reset() discards earlier batches") {
  const auto metric = make_metric("accuracy", "{}", 2);
  CHECK(std::isnan(metric->value()));
  metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), tensor(Json{1, 1}, at::kLong));
  CHECK(metric->value() == 0.5);
  metric->reset();
  CHECK(std::isnan(metric->value()));
  metric->update(tensor(Json{{0.1, 0.9}}), tensor(Json{1}, at::kLong));
  CHECK(metric->value() == 1);
}

TEST_CASE("accuracy: works in inference mode, and sums keep no autograd graph") {
  const auto metric = make_metric("accuracy", "{}", 2);
  const at::Tensor targets = tensor(Json{1, 1}, at::kLong);
  {
    const c10::InferenceMode guard;
    metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}), targets);
  }
  metric->update(tensor(Json{{0.1, 0.9}, {0.8, 0.2}}).requires_grad_(true), targets);
  CHECK_FALSE(metric->sums().requires_grad());
  CHECK(metric->value() == 0.5);
}

TEST_CASE("top_k_accuracy: the metric's name contains k") {
  CHECK(make_metric("accuracy", "{}")->name() == "accuracy");
  CHECK(make_metric("top_k_accuracy", "{}")->name() == "top_5_accuracy");
  CHECK(make_metric("top_k_accuracy", "{k: 2}")->name() == "top_2_accuracy");
}

TEST_CASE("metric_name: equals the metric's name in the engine") {
  for (const std::string type : {"accuracy", "top_k_accuracy"}) {
    CHECK(spec::metric_name(stages_test::stage("metric", type)) == make_metric(type, "{}")->name());
  }
}

TEST_CASE("top_k_accuracy: k greater than the number of classes is an error") {
  CHECK_THROWS_WITH(make_metric("top_k_accuracy", "{k: 7}"),
                    "metric 'top_k_accuracy': k must be at most 6, the number of classes, got 7");
}

TEST_CASE("confusion_matrix: counts the predictions of each class") {
  const auto matrix = make_metric("confusion_matrix", "{}", 3);
  matrix->update(tensor(Json{{9, 0, 0}, {0, 9, 0}, {9, 0, 0}, {0, 0, 9}}),
                 tensor(Json{0, 1, 1, 1}, at::kLong));
  CHECK(matrix->table_rows() == 3);
  CHECK(matrix->sums().equal(tensor(Json{1, 0, 0, 1, 1, 1, 0, 0, 0}).to(at::kDouble)));
  matrix->reset();
  CHECK(matrix->sums().sum().item<double>() == 0);
  CHECK_THROWS_WITH(make_metric("confusion_matrix", "{}", 2001), Contains("at most 2000"));
}

TEST_CASE("mean_iou and dice: values equal PyTorch's for all pixels that count together") {
  const Json golden = stages_test::golden("masks");
  const at::Tensor logits = tensor(golden["logits"]);
  const at::Tensor masks = tensor(golden["targets"], at::kLong);
  const at::Tensor rows = logits.permute({0, 2, 3, 1}).flatten(0, 2);  // as the trainer does it
  const at::Tensor counted = masks.flatten().ne(spec::kIgnoredPixel).nonzero().squeeze(1);
  const stage::MetricContext context{logits.size(1), at::kCPU, spec::Targets::pixels};
  for (const std::string type : {"mean_iou", "dice"}) {
    INFO(type);
    const auto metric = make_metric(type, "{}", context);
    CHECK(std::isnan(metric->value()));
    metric->update(rows.index_select(0, counted), masks.flatten().index_select(0, counted));
    CHECK(metric->value() == Approx(golden[type].get<double>()));
    const at::Tensor all = masks.clamp_max(4);  // with whole masks, in one batch or in two
    const auto whole = make_metric(type, "{}", context);
    whole->update(logits, all);
    const auto parts = make_metric(type, "{}", context);
    parts->update(logits.narrow(0, 0, 1), all.narrow(0, 0, 1));
    parts->update(logits.narrow(0, 1, 2), all.narrow(0, 1, 2));
    CHECK(mismatch(parts->sums(), whole->sums()) == "");
  }
}
