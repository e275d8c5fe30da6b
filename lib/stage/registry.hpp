#pragma once

#include "base/error.hpp"
#include "config/schema/schema.hpp"
#include "stage/stages.hpp"
#include "stage/task.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainctl::stage {

/// Maps the names of one kind of stage to factories.
template <class Interface, class Context>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Interface>(const config::Stage&, const Context&,
                                                           const Registry&)>;

  /// Registers a factory. Options is the struct of lib/spec/options/<kind>.hpp. `make` takes the
  /// options, the context and, if it builds stages made of other stages, the registry.
  template <class Options, class Make>
  void add(const std::string& name, Make make) {
    factories_[name] = [make](const config::Stage& stage, const Context& context,
                              const Registry& registry) {
      if constexpr (std::is_invocable_v<Make, const Options&, const Context&, const Registry&>) {
        return make(stage.as<Options>(), context, registry);
      } else {
        return make(stage.as<Options>(), context);
      }
    };
  }

  /// Registers a class. Its constructor takes `first`, then the options and the context, either of
  /// which it may leave out.
  template <class Options, class Class, class... First>
  void add_class(const std::string& name, First... first) {
    add<Options>(name, [first...](const Options& options, const Context& context) {
      if constexpr (std::is_constructible_v<Class, First..., const Options&, const Context&>) {
        return std::make_unique<Class>(first..., options, context);
      } else if constexpr (std::is_constructible_v<Class, First..., const Options&>) {
        return std::make_unique<Class>(first..., options);
      } else if constexpr (std::is_constructible_v<Class, First..., const Context&>) {
        return std::make_unique<Class>(first..., context);
      } else {
        return std::make_unique<Class>(first...);
      }
    });
  }

  /// Builds the stage. Throws Error(config) for a name that is not registered.
  [[nodiscard]] std::unique_ptr<Interface> build(const config::Stage& stage,
                                                 const Context& context) const {
    const auto found = factories_.find(stage.type);
    ENSURE(config, found != factories_.end(), "{} '{}' is not part of this build, which has: {}",
           stage.kind, stage.type, fmt::join(names(), ", "));
    return in_context(stage.kind + " '" + stage.type + "'",
                      [&] { return found->second(stage, context, *this); });
  }

  /// Adds the factories of `other` whose names are not registered here yet.
  void merge(Registry other) { factories_.merge(other.factories_); }

  [[nodiscard]] bool has(const std::string& name) const { return factories_.contains(name); }

  /// Returns every name in alphabetical order.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, factory] : factories_) all.push_back(name);
    return all;
  }

 private:
  std::map<std::string, Factory> factories_;
};

/// Every stage the engine can build. It is a value, so tests fill their own with fakes.
struct Catalog {
  Registry<Model, ModelContext> models;
  Registry<Model, LayerContext> layers;
  Registry<Task, TaskContext> tasks;
  Registry<Loss, LossContext> losses;
  Registry<Optimizer, OptimizerContext> optimizers;
  Registry<Scheduler, SchedulerContext> schedulers;
  Registry<Stopper, StopperContext> stoppers;
  Registry<Metric, MetricContext> metrics;

  void merge(Catalog other) {
    models.merge(std::move(other.models));
    layers.merge(std::move(other.layers));
    tasks.merge(std::move(other.tasks));
    losses.merge(std::move(other.losses));
    optimizers.merge(std::move(other.optimizers));
    schedulers.merge(std::move(other.schedulers));
    stoppers.merge(std::move(other.stoppers));
    metrics.merge(std::move(other.metrics));
  }
};

}  // namespace trainctl::stage
