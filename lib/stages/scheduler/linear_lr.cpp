#include "spec/scheduler/linear_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <algorithm>

namespace trainctl::stages {
namespace {

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

}  // namespace

void register_scheduler_linear_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::LinearLr, LinearLr>("linear_lr");
}

}  // namespace trainctl::stages
