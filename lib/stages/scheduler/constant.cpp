#include "spec/scheduler/constant.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

namespace trainctl::stages {
namespace {

class Constant final : public WarmedUp {
 public:
  using WarmedUp::WarmedUp;

 private:
  [[nodiscard]] double curve(std::int64_t) const override { return initial_lr(); }
};

}  // namespace

void register_scheduler_constant(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::Constant, Constant>("constant");
}

}  // namespace trainctl::stages
