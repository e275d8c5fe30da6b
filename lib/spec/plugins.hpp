#pragma once

#include "config/schema/schema.hpp"
#include "spec/plugin_entry.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Loads libraries with a user's own stages. A library stays loaded until the process ends, since
// options that it has read point into it. The experiment that was read last decides which plug-ins
// are in use.

namespace trainctl::spec {

/// A loaded plug-in. Its library is never unloaded, so `entry` stays valid.
struct Plugin {
  std::filesystem::path library;
  const PluginEntry* entry = nullptr;
};

/// Returns the file itself if it exists, otherwise a file of its name in a folder of
/// TRAINCTL_PLUGIN_PATH.
std::optional<std::filesystem::path> find_plugin(const std::filesystem::path& library);

/// Loads the library and checks its stamp before any of its functions is called. Throws
/// Error(config) naming the file and a remedy.
Plugin load_plugin(const std::filesystem::path& library);

/// Plug-ins that can be used together, with the vocabulary of them and this build.
class PluginSet {
 public:
  /// Throws Error(config) without changing the set if the plug-in has a stage that exists already
  /// or is of a kind that plug-ins cannot add.
  void add(const Plugin& plugin);

  [[nodiscard]] const std::vector<Plugin>& plugins() const { return plugins_; }
  /// Returns the stages of this build and of the plug-ins.
  [[nodiscard]] const config::Vocabulary& vocabulary() const;

 private:
  std::vector<Plugin> plugins_;
  config::Vocabulary vocabulary_;  // empty until the first plug-in is added
};

/// Sets the result of `vocabulary_in_use` and `plugins_in_use`. Not thread-safe: call it before
/// starting other threads.
void use_plugins(PluginSet set);
const std::vector<Plugin>& plugins_in_use();
/// Returns the stages of this build and of the plug-ins in use.
const config::Vocabulary& vocabulary_in_use();

/// Finds, tries and loads one library. Throws Error(config).
Plugin open_plugin(const std::filesystem::path& library);

/// Sets a function that is called with each library before it is loaded, to try it in another
/// process; it throws Error(config) if that fails. The command-line program sets it, so that a
/// library that crashes does not end the program.
void try_plugins_with(std::function<void(const std::filesystem::path&)> trial);

/// Returns the address of `symbol` in a loaded library. Throws Error(config).
const void* plugin_symbol(const std::filesystem::path& library, const char* symbol);

/// The first members of both entries of a plug-in.
struct PluginStamp {
  std::uint32_t layout = 0;
  const char* abi = nullptr;
};
/// Throws Error(config) naming both stamps if the plug-in's differs from that of this build.
void check_stamp(const std::filesystem::path& library, const PluginStamp& found,
                 const std::string& own_abi);

}  // namespace trainctl::spec
