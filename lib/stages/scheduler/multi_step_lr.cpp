#include "spec/scheduler/multi_step_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trainctl::stages {
namespace {

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

}  // namespace

void register_scheduler_multi_step_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::MultiStepLr, MultiStepLr>("multi_step_lr");
}

}  // namespace trainctl::stages
