#include "spec/scheduler/polynomial_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::stages {
namespace {

class PolynomialLr final : public WarmedUp {
 public:
  PolynomialLr(const spec::scheduler::PolynomialLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        power_(options.power),
        total_(length_or_rest(options.total_iters, "total_iters")) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    const double done = static_cast<double>(std::min(t, total_)) / static_cast<double>(total_);
    return initial_lr() * std::pow(1 - done, power_);
  }

  double power_;
  std::int64_t total_;
};

}  // namespace

void register_scheduler_polynomial_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::PolynomialLr, PolynomialLr>("polynomial_lr");
}

}  // namespace trainctl::stages
