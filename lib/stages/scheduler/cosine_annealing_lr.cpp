#include "spec/scheduler/cosine_annealing_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <cmath>
#include <numbers>

namespace trainctl::stages {
namespace {

class CosineAnnealingLr final : public WarmedUp {
 public:
  CosineAnnealingLr(const spec::scheduler::CosineAnnealingLr& options,
                    const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        eta_min_(options.eta_min),
        t_max_(length_or_rest(options.t_max, "t_max")) {}

 private:
  /// Past t_max the cosine rises again, as in torch.
  [[nodiscard]] double curve(std::int64_t t) const override {
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(t_max_);
    return eta_min_ + (initial_lr() - eta_min_) * (1 + std::cos(angle)) / 2;
  }

  double eta_min_;
  std::int64_t t_max_;
};

}  // namespace

void register_scheduler_cosine_annealing_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::CosineAnnealingLr, CosineAnnealingLr>(
      "cosine_annealing_lr");
}

}  // namespace trainctl::stages
