#include "stages/optimizer/grouped.hpp"

#include "base/error.hpp"
#include "spec/options/base_of.hpp"
#include "stages/optimizer/parameter_rules.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trainctl::stages {
namespace {

using spec::optimizer::ParameterRule;

/// An optimizer for some of the parameters.
struct Part {
  std::unique_ptr<stage::Optimizer> optimizer;
  std::unique_ptr<stage::Scheduler> scheduler;  // null: follows the rate of the first part
};

/// Several optimizers that act as one. The first is the experiment's: its rate and its momentum are
/// those that the experiment's scheduler sets.
class GroupedOptimizer final : public stage::Optimizer {
 public:
  explicit GroupedOptimizer(std::vector<Part> parts) : parts_(std::move(parts)) {}

  void step() override {
    for (const Part& part : parts_) part.optimizer->step();
  }
  void step_unless(const at::Tensor& found_inf) override {
    for (const Part& part : parts_) part.optimizer->step_unless(found_inf);
  }
  [[nodiscard]] bool skips_on_device() const override {
    return all_of([](const stage::Optimizer& one) { return one.skips_on_device(); });
  }
  [[nodiscard]] bool skips_in_kernel() const override {
    return all_of([](const stage::Optimizer& one) { return one.skips_in_kernel(); });
  }
  void zero_grad() override {
    for (const Part& part : parts_) part.optimizer->zero_grad();
  }
  [[nodiscard]] bool is_repeatable() const override {
    return all_of([](const stage::Optimizer& one) { return one.is_repeatable(); });
  }
  void set_lr(double lr) override {
    for (const Part& part : parts_) {
      if (part.scheduler) continue;
      // Rounding must not change the rate of parts that begin with the rate of the scheduler.
      const double initial = part.optimizer->initial_lr();
      part.optimizer->set_lr(initial == initial_lr() ? lr : initial * (lr / initial_lr()));
    }
  }
  void set_position(std::int64_t epoch, std::int64_t global_step) override {
    for (const Part& part : parts_) {
      if (part.scheduler) part.optimizer->set_lr(part.scheduler->lr(epoch, global_step));
    }
  }
  [[nodiscard]] double initial_lr() const override { return first().initial_lr(); }
  [[nodiscard]] bool has_momentum() const override { return first().has_momentum(); }
  void set_momentum(double momentum) override { first().set_momentum(momentum); }
  [[nodiscard]] std::vector<stage::NamedTensor> state() const override {
    std::vector<stage::NamedTensor> all;
    for (const Part& part : parts_)
      std::ranges::move(part.optimizer->state(), std::back_inserter(all));
    return all;
  }
  void serialize(StateArchive& archive) override {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      archive.group(std::to_string(i), [&] { parts_[i].optimizer->serialize(archive); });
  }

 private:
  [[nodiscard]] stage::Optimizer& first() const { return *parts_.front().optimizer; }
  template <class Predicate>
  [[nodiscard]] bool all_of(const Predicate& predicate) const {
    return std::ranges::all_of(parts_,
                               [&](const Part& part) { return predicate(*part.optimizer); });
  }

  std::vector<Part> parts_;
};

/// Returns the index of the group whose optimizer updates each parameter, which is the last one
/// that matches; the number of groups: the experiment's optimizer does.
std::vector<std::size_t> divide(const std::vector<ParameterRule>& groups,
                                const std::vector<stage::NamedTensor>& parameters) {
  std::vector<std::size_t> owners(parameters.size(), groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (!groups[group].optimizer) continue;
    for (const std::string& pattern : groups[group].match) {
      for (const std::size_t i : match_parameters("groups", pattern, parameters)) owners[i] = group;
    }
  }
  return owners;
}

stage::OptimizerContext part_of(const stage::OptimizerContext& context,
                                const std::vector<std::size_t>& owners, std::size_t group) {
  stage::OptimizerContext part;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != group) continue;
    part.parameters.push_back(context.parameters[i]);
    if (!context.owned.empty()) part.owned.push_back(context.owned[i]);
  }
  return part;
}

std::unique_ptr<stage::Scheduler> schedule(const stage::Catalog& catalog,
                                           const ParameterRule& group, stage::SchedulerContext run,
                                           double lr) {
  run.initial_lr = lr;
  auto scheduler = catalog.schedulers.build(group.scheduler, run);
  ENSURE(config, scheduler->monitor().empty() && !scheduler->cycles_momentum(),
         "the scheduler '{}' of a group must not monitor a value or set the momentum\nhint: choose "
         "another one, or make it the scheduler of the experiment",
         group.scheduler.type);
  return scheduler;
}

}  // namespace

std::unique_ptr<stage::Optimizer> build_optimizer(const stage::Catalog& catalog,
                                                  const config::Stage& stage,
                                                  const stage::OptimizerContext& context,
                                                  const stage::SchedulerContext* run) {
  const auto* options = spec::base_of<spec::optimizer::Base>(stage);
  const auto groups = options != nullptr ? options->groups : std::vector<ParameterRule>();
  const std::vector<std::size_t> owners = divide(groups, context.parameters);
  if (std::ranges::count(owners, groups.size()) == std::ssize(owners))
    return catalog.optimizers.build(stage, context);
  const stage::OptimizerContext rest = part_of(context, owners, groups.size());
  ENSURE(
      config, !rest.parameters.empty(),
      "groups: their optimizers update every parameter, so that none is left to '{}'\nhint: make "
      "one of them the optimizer, and remove its group",
      stage.type);
  std::vector<Part> parts;
  in_context("parameters that no group's optimizer updates", [&] {
    parts.push_back({catalog.optimizers.build(stage, rest), nullptr});
  });
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const stage::OptimizerContext part = part_of(context, owners, i);
    if (part.parameters.empty()) continue;
    in_context(fmt::format("groups.{}", i), [&] {
      auto optimizer = build_optimizer(catalog, groups[i].optimizer, part, run);
      const double lr = optimizer->initial_lr();
      const bool is_scheduled = groups[i].scheduler && run != nullptr;
      parts.push_back(
          {std::move(optimizer), is_scheduled ? schedule(catalog, groups[i], *run, lr) : nullptr});
    });
  }
  return std::make_unique<GroupedOptimizer>(std::move(parts));
}

}  // namespace trainctl::stages
