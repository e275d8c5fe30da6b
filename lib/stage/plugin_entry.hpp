#pragma once

#include "spec/plugin_entry.hpp"
#include "stage/registry.hpp"

#include <torch/version.h>

#include <cstdint>

namespace trainctl::stage {

/// The symbol that the engine library of a plug-in exports:
///
///   extern "C" const trainctl::stage::PluginEngineEntry trainctl_plugin_engine{
///       .add_stages = add_stages};
struct PluginEngineEntry {
  std::uint32_t layout = spec::kPluginLayout;
  const char* abi = TRAINCTL_PLUGIN_ABI ", torch " TORCH_VERSION;
  /// Adds the plug-in's models, tasks, losses, optimizers, schedulers, stoppers and metrics.
  void (*add_stages)(Catalog& all) = nullptr;
};

}  // namespace trainctl::stage
