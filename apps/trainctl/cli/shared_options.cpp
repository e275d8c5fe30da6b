#include "cli/shared_options.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "data/core/registry.hpp"
#include "data/loader/loading_plan.hpp"
#include "launch/process/isolated_process.hpp"
#include "spec/plugins.hpp"

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace trainctl::app {

void add_split_argument(CLI::App& verb, std::string& split) {
  verb.add_option("--split", split, "which split: train, val, test")
      ->check(CLI::IsMember({"train", "val", "test"}).description(""))
      ->type_name("SPLIT")
      ->capture_default_str();
}

data::Role role_of(const std::string& split) {
  return split == "train" ? data::Role::train : data::Role::evaluate;
}

void add_selection_flags(CLI::App& verb, SelectionFlags& flags) {
  verb.add_option("--section", flags.section,
                  "the key of the state dict in a .pth or .ckpt file, such as state_dict_ema")
      ->type_name("NAME");
  verb.add_option("--prefix", flags.prefix,
                  "take the tensors whose names begin so and remove it, such as model.")
      ->type_name("TEXT");
  verb.add_option("--key-map", flags.key_map,
                  "rename a tensor, or with dots at the ends a group: FROM=TO; may be repeated")
      ->type_name("FROM=TO")
      ->allow_extra_args(false);  // else it would take the overrides after it
}

weights::Selection selection_of(const SelectionFlags& flags) {
  weights::Selection selection{.section = flags.section,
                               .renaming = {.prefix = flags.prefix,
                                            .key_map = {},
                                            .prefix_option = "--prefix",
                                            .key_map_option = "--key-map"}};
  for (const std::string& word : flags.key_map) {
    const std::size_t equals = word.find('=');
    ENSURE(config, equals != std::string::npos && equals > 0,
           "--key-map must be FROM=TO, as in head.weight=fc.weight, got '{}'", printable(word));
    const bool added =
        selection.renaming.key_map.emplace(word.substr(0, equals), word.substr(equals + 1)).second;
    ENSURE(config, added, "--key-map names '{}' twice", printable(word.substr(0, equals)));
  }
  return selection;
}

CLI::Option& add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                             const std::string& text, int least, int most) {
  const auto number = whole_number(least, most);
  const auto take = [&value, flag, number](const std::string& word) {
    value.emplace();
    if (word == "auto") return;
    const std::string problem = number(word);
    if (!problem.empty()) throw CLI::ValidationError(flag + ": " + problem + ", nor auto");
    value->value = std::stoi(word);
  };
  return *verb.add_option_function<std::string>(flag, take, text)->type_name("N|auto");
}

data::LoadingChoice choose_for_reading(const spec::Loader& requested,
                                       const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options) {
  // Nothing trains on these cores, and nothing else is launched from one of them.
  const data::LoadingLimits limits{.cores = usable_cores(), .trains_on_them = true};
  return data::decide_loading(requested, pipeline, options, limits, /*step_s=*/0, steady_clock());
}

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
                fmt::format("{}; remove it from 'plugins', or fix what it does when it is loaded",
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
