#include "spec/scheduler/exponential_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <cmath>

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

}  // namespace

void register_scheduler_exponential_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::ExponentialLr, ExponentialLr>("exponential_lr");
}

}  // namespace trainctl::stages
