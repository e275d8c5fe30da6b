#include "spec/scheduler/constant_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

namespace trainctl::stages {
namespace {

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

void register_scheduler_constant_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::ConstantLr, ConstantLr>("constant_lr");
}

}  // namespace trainctl::stages
