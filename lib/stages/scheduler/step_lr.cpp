#include "spec/scheduler/step_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <cmath>

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

}  // namespace

void register_scheduler_step_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::StepLr, StepLr>("step_lr");
}

}  // namespace trainctl::stages
