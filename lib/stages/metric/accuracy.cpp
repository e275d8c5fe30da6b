#include "spec/metric/accuracy.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/answers.hpp"
#include "stages/metric/counted.hpp"

#include <ATen/ops/argmax.h>

#include <optional>

namespace trainctl::stages {
namespace {

class Accuracy final : public Counted {
 public:
  Accuracy(const spec::metric::Accuracy& options, const stage::MetricContext& context)
      : Counted("accuracy", context.device),
        least_logit_(least_logit(options.threshold, context)) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    if (!least_logit_) return count(logits.detach().argmax(1).eq(targets), targets.size(0));
    const Answers answers = answers_of(logits, targets, *least_logit_);
    count(answers.called.eq(answers.actual), targets.numel());
  }

 private:
  std::optional<double> least_logit_;  // set: numbers are answers
};

}  // namespace

void register_metric_accuracy(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Accuracy>(
      "accuracy", [](const auto& options, const auto& context) {
        return std::make_unique<Accuracy>(options, context);
      });
}

}  // namespace trainctl::stages
