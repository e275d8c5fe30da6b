#include "spec/metric/rmse.hpp"

#include "stages/builtin.hpp"
#include "stages/metric/averaged.hpp"

#include <cmath>

namespace trainctl::stages {
namespace {

class Rmse final : public Averaged {
 public:
  explicit Rmse(at::Device device) : Averaged("rmse", device) {}

  void update(const at::Tensor& logits, const at::Tensor& targets) override {
    add((logits.detach() - targets).square());
  }
  [[nodiscard]] double value() const override { return std::sqrt(mean()); }
};

}  // namespace

void register_metric_rmse(stage::Catalogue& catalogue) {
  catalogue.metrics.add<spec::metric::Rmse>("rmse", [](const auto&, const auto& context) {
    return std::make_unique<Rmse>(context.device);
  });
}

}  // namespace trainctl::stages
