#include "spec/scheduler/momentum.hpp"

#include "spec/optimizer/rmsprop.hpp"
#include "spec/optimizer/sgd.hpp"
#include "spec/scheduler/one_cycle_lr.hpp"
#include "spec/scheduler/sequential_lr.hpp"

#include <memory>

namespace trainctl::spec {
namespace {

template <class Options>
config::Stage with_momentum(config::Stage stage, double momentum) {
  Options options = stage.as<Options>();
  if (options.momentum == 0) {
    options.momentum = momentum;
    stage.options = std::make_shared<const Options>(std::move(options));
  }
  return stage;
}

}  // namespace

std::optional<double> scheduled_momentum(const config::Stage& stage) {
  if (stage.options_type == typeid(scheduler::OneCycleLr)) {
    const auto& options = stage.as<scheduler::OneCycleLr>();
    return options.cycle_momentum ? std::optional(options.max_momentum) : std::nullopt;
  }
  if (stage.options_type != typeid(scheduler::SequentialLr)) return std::nullopt;
  for (const config::Stage& one : stage.as<scheduler::SequentialLr>().schedulers) {
    if (const auto momentum = scheduled_momentum(one)) return momentum;
  }
  return std::nullopt;
}

config::Stage with_scheduled_momentum(const config::Stage& stage,
                                      const config::Stage& scheduler_stage) {
  const std::optional<double> momentum = scheduled_momentum(scheduler_stage);
  if (!momentum) return stage;
  if (stage.options_type == typeid(optimizer::Sgd))
    return with_momentum<optimizer::Sgd>(stage, *momentum);
  if (stage.options_type == typeid(optimizer::Rmsprop))
    return with_momentum<optimizer::Rmsprop>(stage, *momentum);
  return stage;
}

}  // namespace trainctl::spec
