#include "cli/plugin_option.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/core/registry.hpp"
#include "launch/process/isolated_process.hpp"
#include "spec/plugins.hpp"

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace trainctl::app {
namespace {

constexpr unsigned kTrialS = 20;

/// What was loaded stays so: there is nothing to find out any more.
bool is_loaded(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);  // only what this call counted
  return handle != nullptr;
}

void try_apart(const std::filesystem::path& library) {
  if (is_loaded(library)) return;
  const std::string who = "plug-in '" + printable(library.string()) + "'";
  const auto trial = [&library] {
    ::alarm(kTrialS);
    const spec::Plugin plugin = spec::load_plugin(library);
    spec::PluginSet alone;
    alone.add(plugin);
    data::Catalogue all;
    if (plugin.entry->add_data != nullptr) plugin.entry->add_data(all);
    return std::string();
  };
  try {
    launch::run_isolated(trial, {.who = who + ", loaded on trial by a process of its own,"});
  } catch (const launch::NotStarted&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) throw;
    throw Error(ErrorKind::config,
                fmt::format("{}; remove it from 'plugins', or mend what it does when it is loaded",
                            error.what()));
  }
}

}  // namespace

void add_plugin_option(CLI::App& verb, std::vector<std::string>& libraries) {
  verb.add_option("--plugin", libraries, "with the stages of this plug-in, too; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void use_plugin_files(const std::vector<std::string>& libraries) {
  spec::PluginSet set;
  for (const std::string& library : libraries)
    set.add(spec::open_plugin(std::filesystem::absolute(library).lexically_normal()));
  spec::use_plugins(std::move(set));
}

void try_plugins_apart() { spec::try_plugins_with(try_apart); }

}  // namespace trainctl::app
