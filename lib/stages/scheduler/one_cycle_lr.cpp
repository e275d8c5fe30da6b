#include "spec/options/scheduler.hpp"
#include "stages/builtin.hpp"
#include "stages/scheduler/warmup.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

namespace trainctl::stages {
namespace {

using spec::scheduler::AnnealStrategy;

/// The phases of torch.optim.lr_scheduler.OneCycleLR. After the last phase rate and momentum stay
/// constant. The momentum moves opposite to the rate and stays at its maximum during the warm-up.
class OneCycleLr final : public WarmedUp {
 public:
  OneCycleLr(const spec::scheduler::OneCycleLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        strategy_(options.anneal_strategy),
        cycles_momentum_(options.cycle_momentum) {
    ENSURE(
        config, !options.three_phase || options.pct_start <= 0.5,
        "pct_start must be at most 0.5 with three_phase, got {}: the rise and the fall each take "
        "this share of the run",
        options.pct_start);
    const auto total = static_cast<double>(length_or_rest(options.total_steps, "total_steps"));
    const double low = initial_lr() / options.div_factor;
    const double end = low / options.final_div_factor;
    const double base = options.base_momentum;
    const double most = options.max_momentum;
    phases_.push_back({options.pct_start * total - 1, {low, initial_lr()}, {most, base}});
    if (options.three_phase) {
      phases_.push_back({2 * options.pct_start * total - 2, {initial_lr(), low}, {base, most}});
      phases_.push_back({total - 1, {low, end}, {most, most}});
    } else {
      phases_.push_back({total - 1, {initial_lr(), end}, {base, most}});
    }
  }

  [[nodiscard]] bool cycles_momentum() const override { return cycles_momentum_; }
  [[nodiscard]] std::optional<double> momentum(std::int64_t epoch,
                                               std::int64_t global_step) const override {
    if (!cycles_momentum_) return std::nullopt;
    return value_at(std::max<std::int64_t>(since_warmup(epoch, global_step), 0), &Phase::momentum);
  }

 private:
  struct Way {
    double from;
    double to;
  };
  struct Phase {
    double last;  // last interval of the phase
    Way rate;
    Way momentum;
  };

  [[nodiscard]] double curve(std::int64_t t) const override { return value_at(t, &Phase::rate); }

  [[nodiscard]] double value_at(std::int64_t t, Way Phase::*value) const {
    const double at = std::min(static_cast<double>(t), phases_.back().last);
    double first = 0;
    for (const Phase& phase : phases_) {
      if (at < phase.last || &phase == &phases_.back())
        return anneal(phase.*value, (at - first) / (phase.last - first));
      first = phase.last;
    }
    return (phases_.back().*value).to;
  }

  [[nodiscard]] double anneal(const Way& way, double done) const {
    if (strategy_ == AnnealStrategy::linear) return way.from + (way.to - way.from) * done;
    return way.to + (way.from - way.to) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }

  AnnealStrategy strategy_;
  bool cycles_momentum_;
  std::vector<Phase> phases_;
};

}  // namespace

void register_scheduler_one_cycle_lr(stage::Catalog& catalog) {
  catalog.schedulers.add_class<spec::scheduler::OneCycleLr, OneCycleLr>("one_cycle_lr");
}

}  // namespace trainctl::stages
