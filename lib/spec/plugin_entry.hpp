#pragma once

#include "config/schema/schema.hpp"
#include "spec/compatibility.hpp"
#include "spec/plugin_abi.hpp"

#include <cstdint>
#include <optional>
#include <typeindex>
#include <typeinfo>

namespace trainctl::spec {

/// Returns `options.takes(query)` if the stage has options of one of these types; nullopt for other
/// types, and for options without such a function.
template <class Query, class... Options>
std::optional<bool> stage_supports(const config::Stage& stage, Query query) {
  std::optional<bool> said;
  const auto ask = [&]<class One>(const One*) {
    if constexpr (requires(const One& options) { options.takes(query); }) {
      if (stage.options_type == std::type_index(typeid(One))) said = stage.as<One>().takes(query);
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

inline constexpr std::uint32_t kPluginLayout = 3;

/// The symbol that the library of a plug-in exports. It is data, so that the stamp can be checked
/// before any function of the library runs:
///
///   extern "C" const trainctl::spec::PluginEntry trainctl_plugin{
///       .describe = describe, .add_data = add_data, .engine = "libmine_engine.so"};
///
/// The library must not use libtorch: the command-line program loads it to check an experiment, and
/// the engine loads it again. Code that needs libtorch is in `engine`, which only workers load.
struct PluginEntry {
  std::uint32_t layout = kPluginLayout;  // of this struct
  const char* abi = TRAINCTL_PLUGIN_ABI;
  /// Registers the options of every stage: all.add<GatedMlp>("model", "gated_mlp").
  void (*describe)(config::Vocabulary& all) = nullptr;
  /// Adds data sets, transforms and samplers; null: there are none.
  void (*add_data)(data::Catalog& all) = nullptr;
  /// File name of the library in the same folder with models, losses, ...; null: there are none.
  const char* engine = nullptr;
  /// Returns which targets a loss, a metric or a task supports. stage_supports<Targets, MyLoss,
  /// MyMetric> calls their options' `takes(Targets)`; the default is classes only.
  std::optional<bool> (*takes_targets)(const config::Stage& stage, Targets targets) = nullptr;
  /// Returns which samples a model supports; the default is images and rows of numbers.
  std::optional<bool> (*takes_inputs)(const config::Stage& model, Inputs inputs) = nullptr;
  /// Returns the samples that a task gives the model; null: those of the data set.
  ModelInput (*model_input)(const config::Stage& task, ModelInput data) = nullptr;
};

}  // namespace trainctl::spec
