#include "spec/metric/mae.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/averaged.hpp"

namespace trainctl::stages {
namespace {

class Mae final : public Averaged {
 public:
  explicit Mae(at::Device device) : Averaged("mae", device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    add((logits.detach() - targets).abs());
  }
  [[nodiscard]] double value() const override { return mean(); }
};

}  // namespace

void register_metric_mae(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Mae>("mae", [](const auto&, const auto& context) {
    return std::make_unique<Mae>(context.device);
  });
}

}  // namespace trainctl::stages
