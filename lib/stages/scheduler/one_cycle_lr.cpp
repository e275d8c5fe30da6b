#include "spec/scheduler/one_cycle_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace trainctl::stages {
namespace {

using spec::scheduler::AnnealStrategy;

/// The phases of torch.optim.lr_scheduler.OneCycleLR; past its end the rate stays.
class OneCycleLr final : public WarmedUp {
 public:
  OneCycleLr(const spec::scheduler::OneCycleLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context), strategy_(options.anneal_strategy) {
    ENSURE(config, !options.three_phase || options.pct_start <= 0.5,
           "pct_start is {}: three_phase rises and falls for that share each, so it must be at "
           "most 0.5",
           options.pct_start);
    const auto total = static_cast<double>(length_or_rest(options.total_steps, "total_steps"));
    const double low = initial_lr() / options.div_factor;
    const double end = low / options.final_div_factor;
    phases_.push_back({options.pct_start * total - 1, low, initial_lr()});
    if (options.three_phase) {
      phases_.push_back({2 * options.pct_start * total - 2, initial_lr(), low});
      phases_.push_back({total - 1, low, end});
    } else {
      phases_.push_back({total - 1, initial_lr(), end});
    }
  }

 private:
  struct Phase {
    double last;  // interval
    double from;
    double to;
  };

  [[nodiscard]] double curve(std::int64_t t) const override {
    const double at = std::min(static_cast<double>(t), phases_.back().last);
    double first = 0;
    for (const Phase& phase : phases_) {
      if (at <= phase.last || &phase == &phases_.back())
        return anneal(phase, (at - first) / (phase.last - first));
      first = phase.last;
    }
    return phases_.back().to;
  }

  [[nodiscard]] double anneal(const Phase& phase, double done) const {
    if (strategy_ == AnnealStrategy::linear) return phase.from + (phase.to - phase.from) * done;
    return phase.to + (phase.from - phase.to) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }

  AnnealStrategy strategy_;
  std::vector<Phase> phases_;
};

}  // namespace

void register_scheduler_one_cycle_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add<spec::scheduler::OneCycleLr>(
      "one_cycle_lr", [](const auto& options, const auto& context) {
        return std::make_unique<OneCycleLr>(options, context);
      });
}

}  // namespace trainctl::stages
