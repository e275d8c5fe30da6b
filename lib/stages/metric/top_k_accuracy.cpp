#include "spec/metric/top_k_accuracy.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/counted.hpp"

#include <ATen/ops/topk.h>

namespace trainctl::stages {
namespace {

class TopKAccuracy final : public Counted {
 public:
  TopKAccuracy(const spec::metric::TopKAccuracy& options, const stage::MetricContext& context)
      : Counted(fmt::format("top_{}_accuracy", options.k), context.device), k_(options.k) {
    ENSURE(config, k_ <= context.classes,
           "k is {}, but the data has {} classes: k must be at most that", k_, context.classes);
  }

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    const at::Tensor best =
        std::get<1>(at::topk(logits.detach(), k_, 1, /*largest=*/true, /*sorted=*/false));
    count(best.eq(targets.unsqueeze(1)), targets.size(0));
  }

 private:
  std::int64_t k_;
};

}  // namespace

void register_metric_top_k_accuracy(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::TopKAccuracy>(
      "top_k_accuracy", [](const auto& options, const auto& context) {
        return std::make_unique<TopKAccuracy>(options, context);
      });
}

}  // namespace trainctl::stages
