#include "spec/scheduler/constant_lr.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

namespace trainctl::stages {
namespace {

class ConstantLr final : public WarmedUp {
 public:
  using WarmedUp::WarmedUp;

 private:
  [[nodiscard]] double curve(std::int64_t) const override { return initial_lr(); }
};

}  // namespace

void register_scheduler_constant_lr(stage::Catalogue& catalogue) {
  catalogue.schedulers.add<spec::scheduler::ConstantLr>(
      "constant_lr", [](const auto& options, const auto& context) {
        return std::make_unique<ConstantLr>(options, context);
      });
}

}  // namespace trainctl::stages
