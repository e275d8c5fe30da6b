#include "engine/setup/plugins.hpp"

#include "base/strings.hpp"
#include "spec/plugins.hpp"
#include "stage/plugin_entry.hpp"
#include "stages/builtin.hpp"

#include <filesystem>
#include <utility>

namespace trainctl::engine {
namespace {

stage::Catalogue stages_of(const std::filesystem::path& library) {
  const auto* entry = static_cast<const stage::PluginEngineEntry*>(
      spec::plugin_symbol(library, "trainctl_plugin_engine"));
  spec::check_stamp(library, {entry->layout, entry->abi}, stage::PluginEngineEntry{}.abi);
  stage::Catalogue own;
  if (entry->add_stages != nullptr) {
    in_context("plug-in '" + printable(library.string()) + "'", [&] { entry->add_stages(own); });
  }
  return own;
}

}  // namespace

stage::Catalogue catalogue_in_use() {
  stage::Catalogue all = stages::builtin_catalogue();
  for (const spec::Plugin& plugin : spec::plugins_in_use()) {
    if (plugin.entry->engine == nullptr) continue;
    all.merge(stages_of(plugin.library.parent_path() / plugin.entry->engine));
  }
  return all;
}

}  // namespace trainctl::engine
