#pragma once

#include "config/schema/schema.hpp"
#include "spec/plugin_entry.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Libraries with stages of a user's own. A library that was loaded stays so until the process ends,
// since options that it has read point into it; which of them are in use is a matter of the
// experiment that was read last.

namespace trainctl::spec {

struct Plugin {
  std::filesystem::path library;
  const PluginEntry* entry = nullptr;
};

/// The file itself; where there is none, a file of its name in a folder of TRAINCTL_PLUGIN_PATH.
std::optional<std::filesystem::path> find_plugin(const std::filesystem::path& library);

/// Loads the library and reads its stamp, before any function of it is called. Throws Error(config)
/// naming the file and what to do about it.
Plugin load_plugin(const std::filesystem::path& library);

/// Plug-ins that can be in use together, with the vocabulary that they and this build make.
class PluginSet {
 public:
  /// Throws Error(config), and stays as it was, where a stage of it is there already or is of no
  /// kind that a plug-in can have.
  void add(const Plugin& plugin);

  [[nodiscard]] const std::vector<Plugin>& plugins() const { return plugins_; }
  /// The stages of this build, and theirs.
  [[nodiscard]] const config::Vocabulary& vocabulary() const;

 private:
  std::vector<Plugin> plugins_;
  config::Vocabulary vocabulary_;  // empty till there is a plug-in
};

/// From now on `vocabulary_in_use` and `plugins_in_use` answer with these. For one thread, before
/// others start.
void use_plugins(PluginSet set);
const std::vector<Plugin>& plugins_in_use();
/// The stages of this build, and those of the plug-ins in use.
const config::Vocabulary& vocabulary_in_use();

/// Finds, tries and loads one library. Throws Error(config).
Plugin open_plugin(const std::filesystem::path& library);

/// Called with each library before it is loaded, to try it elsewhere; throws Error(config) where
/// that ends badly. The front half sets it, and so outlives a library that crashes.
void try_plugins_with(std::function<void(const std::filesystem::path&)> trial);

/// The address of `symbol` in the library, which is loaded. Throws Error(config).
const void* plugin_symbol(const std::filesystem::path& library, const char* symbol);

/// What both entries of a plug-in begin with.
struct PluginStamp {
  std::uint32_t layout = 0;
  const char* abi = nullptr;
};
/// Throws Error(config) naming both where the stamp is another than that of this build.
void check_stamp(const std::filesystem::path& library, const PluginStamp& found,
                 const std::string& own_abi);

}  // namespace trainctl::spec
