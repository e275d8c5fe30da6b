#include "spec/metric/accuracy.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/counted.hpp"

#include <ATen/ops/argmax.h>

namespace trainctl::stages {
namespace {

class Accuracy final : public Counted {
 public:
  explicit Accuracy(at::Device device) : Counted("accuracy", device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    count(logits.detach().argmax(1).eq(targets), targets.size(0));
  }
};

}  // namespace

void register_metric_accuracy(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Accuracy>("accuracy", [](const auto&, const auto& context) {
    return std::make_unique<Accuracy>(context.device);
  });
}

}  // namespace trainctl::stages
