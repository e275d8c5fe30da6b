#include "spec/scheduler/decay.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmup.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainctl::stages {
namespace {

class ExponentialLr final : public WarmedUp {
 public:
  ExponentialLr(const spec::scheduler::ExponentialLr& options,
                const stage::SchedulerContext& context)
      : WarmedUp(options, context), gamma_(options.gamma) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    return initial_lr() * std::pow(gamma_, static_cast<double>(t));
  }

  double gamma_;
};

class LinearLr final : public WarmedUp {
 public:
  LinearLr(const spec::scheduler::LinearLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        options_(options),
        total_(length_or_rest(options.total_iters, "total_iters")) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    const double done = static_cast<double>(std::min(t, total_)) / static_cast<double>(total_);
    const double factor =
        options_.start_factor + (options_.end_factor - options_.start_factor) * done;
    return initial_lr() * factor;
  }

  spec::scheduler::LinearLr options_;
  std::int64_t total_;
};

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

using spec::scheduler::DecayShape;

/// What is left of the rate when `done` of the decay is over.
double left(DecayShape shape, double done) {
  if (shape == DecayShape::linear) return 1 - done;
  if (shape == DecayShape::cosine) return (1 + std::cos(std::numbers::pi * done)) / 2;
  return 1 - std::sqrt(done);
}

class Wsd final : public WarmedUp {
 public:
  Wsd(const spec::scheduler::Wsd& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        options_(options),
        end_(intervals_after_warmup()),
        decay_(std::max<std::int64_t>(
            1, std::llround(options.decay_fraction * static_cast<double>(end_)))) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    const std::int64_t into = std::clamp<std::int64_t>(t - (end_ - decay_), 0, decay_);
    const double done = static_cast<double>(into) / static_cast<double>(decay_);
    const double factor =
        options_.end_factor + (1 - options_.end_factor) * left(options_.decay, done);
    return initial_lr() * factor;
  }

  spec::scheduler::Wsd options_;
  std::int64_t end_;    // of the run, in intervals after warm-up
  std::int64_t decay_;  // intervals
};

}  // namespace

void register_scheduler_exponential_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::ExponentialLr, ExponentialLr>("exponential_lr");
}

void register_scheduler_linear_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::LinearLr, LinearLr>("linear_lr");
}

void register_scheduler_polynomial_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::PolynomialLr, PolynomialLr>("polynomial_lr");
}

void register_scheduler_cosine_annealing_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::CosineAnnealingLr, CosineAnnealingLr>(
      "cosine_annealing_lr");
}

void register_scheduler_cosine_annealing_warm_restarts(stage::Catalogue& catalogue) {
  catalogue.schedulers
      .add_class<spec::scheduler::CosineAnnealingWarmRestarts, CosineAnnealingWarmRestarts>(
          "cosine_annealing_warm_restarts");
}

void register_scheduler_wsd(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::Wsd, Wsd>("wsd");
}

}  // namespace trainctl::stages
