#pragma once

#include "config/schema/schema.hpp"
#include "spec/plugin_abi.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <typeindex>
#include <typeinfo>

namespace trainctl::spec {

/// `options.takes(asked)` where the stage has options of one of these types; nothing where it has
/// others, or they do not say.
template <class Asked, class... Options>
std::optional<bool> said_by(const config::Stage& stage, Asked asked) {
  std::optional<bool> said;
  const auto ask = [&]<class One>(const One*) {
    if constexpr (requires(const One& options) { options.takes(asked); }) {
      if (stage.options_type == std::type_index(typeid(One))) said = stage.as<One>().takes(asked);
    }
  };
  (ask(static_cast<const Options*>(nullptr)), ...);
  return said;
}

}  // namespace trainctl::spec

namespace trainctl::data {
struct Catalog;
}

namespace trainctl::spec {

inline constexpr std::uint32_t kPluginLayout = 2;

/// What the library of a plug-in exports, as data, so that its stamp is read before any of its
/// functions runs:
///
///   extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
///       .describe = describe, .add_data = add_data, .engine = "libmine_engine.so"};
///
/// The library never sees libtorch: the front half loads it to check an experiment, the engine to
/// read it again. What needs libtorch stands in `engine`, which only workers load.
struct PluginEntry {
  std::uint32_t layout = kPluginLayout;  // of this struct
  const char* abi = TRAINCTL_PLUGIN_ABI;
  /// Adds the options of every stage: all.add<GatedMlp>("model", "gated_mlp").
  void (*describe)(config::Vocabulary& all) = nullptr;
  /// Adds data sets, transforms and samplers; null: there are none.
  void (*add_data)(data::Catalog& all) = nullptr;
  /// File name of the library beside this one that has the models, losses ...; null: there are
  /// none.
  const char* engine = nullptr;
  /// Which targets a loss or a metric is for: said_by<Targets, MyLoss, MyMetric> asks their
  /// options' `takes(Targets)`; where nothing is said, classes alone.
  std::optional<bool> (*takes_targets)(const config::Stage& stage, Targets targets) = nullptr;
  /// Which samples a model is for; where nothing is said, images and rows of numbers.
  std::optional<bool> (*takes_inputs)(const config::Stage& model, Inputs inputs) = nullptr;
};

}  // namespace trainctl::spec
