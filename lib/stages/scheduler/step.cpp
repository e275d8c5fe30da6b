#include "spec/scheduler/step.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmup.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trainctl::stages {
namespace {

class StepLr final : public WarmedUp {
 public:
  StepLr(const spec::scheduler::StepLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context), options_(options) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    return initial_lr() * std::pow(options_.gamma, static_cast<double>(t / options_.step_size));
  }

  spec::scheduler::StepLr options_;
};

class MultiStepLr final : public WarmedUp {
 public:
  MultiStepLr(const spec::scheduler::MultiStepLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context), milestones_(options.milestones), gamma_(options.gamma) {
    const auto fall =
        std::adjacent_find(milestones_.begin(), milestones_.end(), std::greater_equal<>());
    ENSURE(config, fall == milestones_.end(),
           "milestones has {} after {}: write them in rising order", *(fall + 1), *fall);
  }

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    const auto passed =
        std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin();
    return initial_lr() * std::pow(gamma_, static_cast<double>(passed));
  }

  std::vector<std::int64_t> milestones_;
  double gamma_;
};

class Constant final : public WarmedUp {
 public:
  using WarmedUp::WarmedUp;

 private:
  [[nodiscard]] double curve(std::int64_t) const override { return initial_lr(); }
};

class ConstantLr final : public WarmedUp {
 public:
  ConstantLr(const spec::scheduler::ConstantLr& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context), options_(options) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    return t < options_.total_iters ? initial_lr() * options_.factor : initial_lr();
  }

  spec::scheduler::ConstantLr options_;
};

}  // namespace

void register_scheduler_step_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::StepLr, StepLr>("step_lr");
}

void register_scheduler_multi_step_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::MultiStepLr, MultiStepLr>("multi_step_lr");
}

void register_scheduler_constant(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::Constant, Constant>("constant");
}

void register_scheduler_constant_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::ConstantLr, ConstantLr>("constant_lr");
}

}  // namespace trainctl::stages
