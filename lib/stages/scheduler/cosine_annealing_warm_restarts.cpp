#include "spec/scheduler/cosine_annealing_warm_restarts.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <cmath>
#include <numbers>

namespace trainctl::stages {
namespace {

class CosineAnnealingWarmRestarts final : public WarmedUp {
 public:
  CosineAnnealingWarmRestarts(const spec::scheduler::CosineAnnealingWarmRestarts& options,
                              const stage::SchedulerContext& context)
      : WarmedUp(options, context), options_(options) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    std::int64_t length = options_.t_0;
    if (options_.t_mult == 1) t %= length;
    while (t >= length) {
      t -= length;
      length *= options_.t_mult;
    }
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(length);
    return options_.eta_min + (initial_lr() - options_.eta_min) * (1 + std::cos(angle)) / 2;
  }

  spec::scheduler::CosineAnnealingWarmRestarts options_;
};

}  // namespace

void register_scheduler_cosine_annealing_warm_restarts(stage::Catalogue& catalogue) {
  catalogue.schedulers
      .add_class<spec::scheduler::CosineAnnealingWarmRestarts, CosineAnnealingWarmRestarts>(
          "cosine_annealing_warm_restarts");
}

}  // namespace trainctl::stages
