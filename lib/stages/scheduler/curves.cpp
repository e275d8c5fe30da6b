#include "spec/options/scheduler.hpp"
#include "stages/builtin.hpp"
#include "stages/scheduler/warmup.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace trainctl::stages {
namespace {

using spec::scheduler::Constant;
using spec::scheduler::ConstantLr;
using spec::scheduler::CosineAnnealingLr;
using spec::scheduler::CosineAnnealingWarmRestarts;
using spec::scheduler::DecayShape;
using spec::scheduler::ExponentialLr;
using spec::scheduler::LinearLr;
using spec::scheduler::MultiStepLr;
using spec::scheduler::PolynomialLr;
using spec::scheduler::StepLr;
using spec::scheduler::Wsd;

/// The rate `t` intervals after the warm-up, for the optimizer's rate `lr`.
using Curve = std::function<double(double lr, std::int64_t t)>;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

Curve curve_of(const Constant& /*options*/, const WarmedUp& /*run*/) {
  return [](double lr, std::int64_t) { return lr; };
}

Curve curve_of(const ConstantLr& options, const WarmedUp& /*run*/) {
  return [options](double lr, std::int64_t t) {
    return t < options.total_iters ? lr * options.factor : lr;
  };
}

Curve curve_of(const StepLr& options, const WarmedUp& /*run*/) {
  return [options](double lr, std::int64_t t) {
    return lr * std::pow(options.gamma, static_cast<double>(t / options.step_size));
  };
}

/// Throws Error(config) for milestones that do not increase.
Curve curve_of(const MultiStepLr& options, const WarmedUp& /*run*/) {
  const auto fall = std::ranges::adjacent_find(options.milestones, std::greater_equal<>());
  ENSURE(config, fall == options.milestones.end(),
         "milestones must be in ascending order, but {} follows {}", *(fall + 1), *fall);
  return [options](double lr, std::int64_t t) {
    const auto passed =
        std::ranges::upper_bound(options.milestones, t) - options.milestones.begin();
    return lr * std::pow(options.gamma, static_cast<double>(passed));
  };
}

Curve curve_of(const ExponentialLr& options, const WarmedUp& /*run*/) {
  return [gamma = options.gamma](double lr, std::int64_t t) {
    return lr * std::pow(gamma, static_cast<double>(t));
  };
}

Curve curve_of(const LinearLr& options, const WarmedUp& run) {
  const std::int64_t total = run.length_or_rest(options.total_iters, "total_iters");
  return [options, total](double lr, std::int64_t t) {
    const double done = share(std::min(t, total), total);
    return lr * (options.start_factor + (options.end_factor - options.start_factor) * done);
  };
}

Curve curve_of(const PolynomialLr& options, const WarmedUp& run) {
  const std::int64_t total = run.length_or_rest(options.total_iters, "total_iters");
  return [power = options.power, total](double lr, std::int64_t t) {
    return lr * std::pow(1 - share(std::min(t, total), total), power);
  };
}

/// After t_max the cosine increases again, as in torch.
Curve curve_of(const CosineAnnealingLr& options, const WarmedUp& run) {
  const std::int64_t t_max = run.length_or_rest(options.t_max, "t_max");
  return [eta_min = options.eta_min, t_max](double lr, std::int64_t t) {
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(t_max);
    return eta_min + (lr - eta_min) * (1 + std::cos(angle)) / 2;
  };
}

Curve curve_of(const CosineAnnealingWarmRestarts& options, const WarmedUp& /*run*/) {
  return [options](double lr, std::int64_t t) {
    std::int64_t length = options.t_0;
    if (options.t_mult == 1) t %= length;
    while (t >= length) {
      t -= length;
      length *= options.t_mult;
    }
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(length);
    return options.eta_min + (lr - options.eta_min) * (1 + std::cos(angle)) / 2;
  };
}

/// Returns the remaining share of the rate when the share `done` of the decay has passed.
double left(DecayShape shape, double done) {
  if (shape == DecayShape::linear) return 1 - done;
  if (shape == DecayShape::cosine) return (1 + std::cos(std::numbers::pi * done)) / 2;
  return 1 - std::sqrt(done);
}

Curve curve_of(const Wsd& options, const WarmedUp& run) {
  const std::int64_t end = run.intervals_after_warmup();
  const std::int64_t decay =
      std::max<std::int64_t>(1, std::llround(options.decay_fraction * static_cast<double>(end)));
  return [options, end, decay](double lr, std::int64_t t) {
    const double done = share(std::clamp<std::int64_t>(t - (end - decay), 0, decay), decay);
    return lr * (options.end_factor + (1 - options.end_factor) * left(options.decay, done));
  };
}

/// A warm-up followed by a curve, like torch's scheduler with the name of its options.
template <class Options>
class CurveLr final : public WarmedUp {
 public:
  CurveLr(const Options& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context), curve_(curve_of(options, *this)) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override { return curve_(initial_lr(), t); }

  Curve curve_;
};

template <class Options>
void add_curve(stage::Catalog& catalog, const std::string& name) {
  catalog.schedulers.add_class<Options, CurveLr<Options>>(name);
}

}  // namespace

void register_scheduler_curves(stage::Catalog& catalog) {
  add_curve<Constant>(catalog, "constant");
  add_curve<ConstantLr>(catalog, "constant_lr");
  add_curve<StepLr>(catalog, "step_lr");
  add_curve<MultiStepLr>(catalog, "multi_step_lr");
  add_curve<ExponentialLr>(catalog, "exponential_lr");
  add_curve<LinearLr>(catalog, "linear_lr");
  add_curve<PolynomialLr>(catalog, "polynomial_lr");
  add_curve<CosineAnnealingLr>(catalog, "cosine_annealing_lr");
  add_curve<CosineAnnealingWarmRestarts>(catalog, "cosine_annealing_warm_restarts");
  add_curve<Wsd>(catalog, "wsd");
}

}  // namespace trainctl::stages
