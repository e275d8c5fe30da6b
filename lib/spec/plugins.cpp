#include "spec/plugins.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "spec/load.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace trainctl::spec {
namespace {

constexpr const char* kRebuild = "rebuild the plug-in against the headers of this trainctl";
constexpr std::array<std::string_view, 11> kKinds{
    "batch_transform", "dataset",   "loss",    "metric", "model",    "optimizer",
    "sampler",         "scheduler", "stopper", "task",   "transform"};

std::function<void(const fs::path&)>& trial() {
  static std::function<void(const fs::path&)> set;
  return set;
}

PluginSet& in_use() {
  static PluginSet set;
  return set;
}

std::string name_of(const fs::path& library) {
  return fmt::format("plug-in '{}'", printable(library.string()));
}

config::Vocabulary described_by(const Plugin& plugin) {
  config::Vocabulary own;
  if (plugin.entry->describe != nullptr) plugin.entry->describe(own);
  return own;
}

void check_name(const config::Vocabulary& all, const std::string& kind, const std::string& name) {
  ENSURE(config, std::ranges::find(kKinds, kind) != kKinds.end(),
         "a plug-in cannot define the {} '{}', only {}", printable(kind), printable(name),
         fmt::join(kKinds, ", "));
  ENSURE(config, all.find(kind, name) == nullptr,
         "the {} '{}' already exists\nhint: use another name", kind, printable(name));
}

}  // namespace

std::optional<fs::path> find_plugin(const fs::path& library) {
  if (is_file(library)) return library;
  const char* folders = std::getenv("TRAINCTL_PLUGIN_PATH");
  if (folders == nullptr) return std::nullopt;
  for (const std::string& folder : split(folders, ':')) {
    if (folder.empty()) continue;
    const fs::path candidate = fs::absolute(fs::path(folder) / library.filename());
    if (is_file(candidate)) return candidate;
  }
  return std::nullopt;
}

const void* plugin_symbol(const fs::path& library, const char* symbol) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* cause = ::dlerror();
    THROW(config, "cannot load {}: {}\nhint: {}", name_of(library),
          cause == nullptr ? "unknown cause" : printable(cause), kRebuild);
  }
  const void* found = ::dlsym(handle, symbol);
  ENSURE(config, found != nullptr,
         "{} is not a trainctl plug-in: it does not export '{}'\nhint: see docs/how-to/plugins.md",
         name_of(library), symbol);
  return found;
}

void check_stamp(const fs::path& library, const PluginStamp& found, const std::string& own_abi) {
  ENSURE(config, found.layout == kPluginLayout,
         "{} has version {} of the plug-in interface, but this trainctl reads version {}\nhint: {}",
         name_of(library), found.layout, kPluginLayout, kRebuild);
  const std::string abi = found.abi == nullptr ? "" : found.abi;
  ENSURE(config, abi == own_abi, "{} was built for '{}', but this trainctl is '{}'\nhint: {}",
         name_of(library), printable(abi), own_abi, kRebuild);
}

Plugin load_plugin(const fs::path& library) {
  const auto* entry = static_cast<const PluginEntry*>(plugin_symbol(library, "trainctl_plugin"));
  check_stamp(library, {entry->layout, entry->abi}, TRAINCTL_PLUGIN_ABI);
  if (entry->engine != nullptr) {
    const fs::path engine = library.parent_path() / entry->engine;
    ENSURE(config, is_file(engine),
           "{} needs '{}' in the same folder, but that file does not exist\nhint: copy both files, "
           "or rebuild the plug-in",
           name_of(library), printable(engine.filename().string()));
  }
  return {library, entry};
}

const config::Vocabulary& PluginSet::vocabulary() const {
  return plugins_.empty() ? builtin_vocabulary() : vocabulary_;
}

void PluginSet::add(const Plugin& plugin) {
  const auto same = [&](const Plugin& other) { return other.entry == plugin.entry; };
  if (std::ranges::any_of(plugins_, same)) return;
  in_context(name_of(plugin.library), [&] {
    const config::Vocabulary own = described_by(plugin);
    config::Vocabulary all = vocabulary();
    for (const std::string& kind : own.kinds()) {
      for (const std::string& name : own.names(kind)) {
        check_name(all, kind, name);
        all.add(*own.find(kind, name));
      }
    }
    vocabulary_ = std::move(all);
    plugins_.push_back(plugin);
  });
}

void use_plugins(PluginSet set) { in_use() = std::move(set); }

const std::vector<Plugin>& plugins_in_use() { return in_use().plugins(); }

const config::Vocabulary& vocabulary_in_use() { return in_use().vocabulary(); }

void try_plugins_with(std::function<void(const fs::path&)> set) { trial() = std::move(set); }

Plugin open_plugin(const fs::path& library) {
  const auto found = find_plugin(library);
  ENSURE(config, found.has_value(),
         "plug-in '{}' does not exist, neither as a path nor in a folder of TRAINCTL_PLUGIN_PATH",
         printable(library.string()));
  if (trial()) trial()(*found);
  return load_plugin(*found);
}

}  // namespace trainctl::spec
