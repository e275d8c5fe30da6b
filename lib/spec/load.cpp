#include "spec/load.hpp"

#include "base/error.hpp"
#include "config/schema/dump.hpp"
#include "config/schema/reader.hpp"
#include "config/tree/load.hpp"
#include "config/wording.hpp"
#include "spec/checks/checks.hpp"
#include "spec/options/logger.hpp"
#include "spec/plugins.hpp"
#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <iterator>

namespace trainctl::spec {
namespace {

constexpr std::string_view kKey = "plugins";

struct PluginRequest {
  std::filesystem::path library;
  config::Position position;
};

/// Matches `plugins=[libmine.so]`, `++plugins=...`, `plugins.0=...`, `~plugins`.
bool is_of_plugins(std::string_view change) {
  change.remove_prefix(std::min(change.find_first_not_of("+~"), change.size()));
  if (!change.starts_with(kKey)) return false;
  change.remove_prefix(kKey.size());
  return change.empty() || change.front() == '=' || change.front() == '.';
}

/// Errors in the key itself are reported later, when the whole experiment is read.
std::vector<PluginRequest> plugin_requests(const config::Node& files,
                                           const std::vector<std::string>& overrides) {
  std::vector<std::string> own;
  std::ranges::copy_if(overrides, std::back_inserter(own), is_of_plugins);
  if (files.broken || (files.find(kKey) == nullptr && own.empty())) return {};
  config::Diagnostics ignored;
  const config::Grammar grammar{&experiment_schema(), &builtin_vocabulary()};
  const config::Node tree = config::finish_tree(files, own, ignored, grammar);
  const config::Node* list = tree.find(kKey);
  if (list == nullptr || list->type != config::Node::Type::list) return {};
  config::Reader reader(builtin_vocabulary(), ignored);
  config::Field field;
  field.key = kKey;
  std::vector<PluginRequest> requests;
  for (const config::Node& one : list->items) {
    PluginRequest request{{}, one.position};
    if (reader.path(one, field, request.library)) requests.push_back(std::move(request));
  }
  return requests;
}

/// Loads the plug-ins that `files`, the tree before overrides, and the overrides name, and makes
/// them the plug-ins in use; there may be none. A plug-in that fails is a problem at the position
/// that names it.
void use_plugins_of(const config::Node& files, const std::vector<std::string>& overrides,
                    config::Diagnostics& diagnostics) {
  PluginSet set;
  for (const PluginRequest& request : plugin_requests(files, overrides)) {
    try {
      set.add(open_plugin(request.library));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      diagnostics.error(request.position, error.what());
    }
  }
  use_plugins(std::move(set));
}

/// Replaces names by the paths that were found, because a worker uses these.
void resolve_plugins(Experiment& experiment) {
  for (std::filesystem::path& library : experiment.plugins)
    library = find_plugin(library).value_or(library);
}

Loaded typed(config::LoadedTree tree, config::Diagnostics& diagnostics) {
  Loaded loaded{.experiment = {}, .tree = std::move(tree.tree), .files = std::move(tree.files)};
  if (loaded.tree.broken) return loaded;
  config::Reader reader(vocabulary_in_use(), diagnostics);
  reader.object(loaded.tree, experiment_schema(), "the experiment", &loaded.experiment);
  resolve_plugins(loaded.experiment);
  apply_split(loaded.experiment, loaded.tree, diagnostics);
  Checker checker(loaded.experiment, loaded.tree, diagnostics);
  check_stages(checker);
  check_trainer(checker);
  check_distributed(checker);
  return loaded;
}

config::LoadedTree files_of(const std::filesystem::path& file, config::Diagnostics& diagnostics) {
  const std::optional<std::string_view> builtin = builtin_text(file.string());
  if (!builtin)
    return config::load_files(file, diagnostics, {&experiment_schema(), &vocabulary_in_use()});
  return {config::load_text(file.string(), *builtin, diagnostics), {{file, std::string(*builtin)}}};
}

/// Valid names depend on the plug-ins in the files, so these are loaded between the two phases.
config::LoadedTree finished(config::LoadedTree files, const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics) {
  use_plugins_of(files.tree, overrides, diagnostics);
  files.tree = config::finish_tree(std::move(files.tree), overrides, diagnostics,
                                   {&experiment_schema(), &vocabulary_in_use()});
  return files;
}

/// Returns the key that an override changes, without its signs and value.
std::string key_of(const std::string& change) {
  const std::size_t begin = std::min(change.find_first_not_of("+~"), change.size());
  return change.substr(begin, change.find('=', begin) - begin);
}

/// Workers apply the override to the resolved file, in which every key is present: adding is
/// setting there, except at the end of a list, which has the length in the file.
std::string as_fallback(const std::string& change) {
  const bool adds = change.starts_with('+') && !change.starts_with("++");
  const std::string key = key_of(change);
  const bool appends = key.find_first_not_of("0123456789", key.rfind('.') + 1) == std::string::npos;
  return adds && !appends ? "+" + change : change;
}

/// Checks one entry. It must not change what the run resolves before its first attempt.
void check_fallback(const Loaded& loaded, const std::vector<std::string>& changes,
                    config::Diagnostics& found) {
  if (changes.empty())
    found.error({}, "the entry changes no key, so the run would diverge again", "write KEY=VALUE");
  const auto names = [&](const std::string& key) {
    return std::ranges::any_of(changes, [&](const std::string& change) {
      const std::string found_key = key_of(change);
      return found_key == key || found_key.starts_with(key + ".");
    });
  };
  if (names("plugins"))
    return found.error(
        {}, "'plugins' cannot be changed, as they are loaded once, before the first attempt",
        "set 'plugins' in the file");
  const Loaded changed = overridden(loaded, changes, found);
  const bool is_wanted =
      names("loader.batch_size") || std::ranges::count(changes, "loader", key_of) > 0;
  if (is_wanted && changed.experiment.loader.batch_size.automatic)
    found.error(
        {}, "'loader.batch_size' cannot be auto, as it is chosen once, before the first attempt",
        "write a number, as in loader.batch_size=64");
}

/// Returns the position of a problem in an entry: an override is a text in the file, and the
/// problem's column refers to it.
config::Position place_of(const config::Diagnostic& problem, const config::Node& entry) {
  const auto& source = problem.position.source;
  if (source == nullptr || !source->is_override) return entry.position;
  for (const FallbackChange& change : changes_of(entry)) {
    if (source->lines == std::vector{as_fallback(change.text)})
      return change.place_of(problem.position.column);
  }
  return entry.position;
}

/// Reports problems of a fallback at the position where it is written.
void check_fallbacks(const Loaded& loaded, config::Diagnostics& diagnostics) {
  const auto& fallbacks = loaded.experiment.trainer.on_divergence;
  const config::Node* written = config::find_path(loaded.tree, "trainer.on_divergence");
  if (fallbacks.empty() || written == nullptr || diagnostics.error_count() > 0) return;
  for (std::size_t i = 0; i < fallbacks.size(); ++i) {
    config::Diagnostics found;
    check_fallback(loaded, fallbacks[i].values, found);
    for (config::Diagnostic& problem : found.sorted()) {
      if (problem.severity != config::Severity::error) continue;
      problem.message = fmt::format("entry {} of 'on_divergence': {}", i + 1, problem.message);
      if (i < written->items.size()) problem.position = place_of(problem, written->items[i]);
      diagnostics.add(std::move(problem));
    }
  }
}

Loaded read_tree(config::LoadedTree files, const std::vector<std::string>& overrides,
                 config::Diagnostics& diagnostics) {
  Loaded loaded = typed(finished(std::move(files), overrides, diagnostics), diagnostics);
  check_fallbacks(loaded, diagnostics);
  return loaded;
}

Loaded checked(Loaded loaded, const std::vector<Check>& checks, config::Diagnostics& diagnostics) {
  for (const Check& check : checks) check(loaded, diagnostics);
  diagnostics.throw_if_errors();
  return loaded;
}

}  // namespace

Loaded read_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics) {
  return read_tree(files_of(file, diagnostics), overrides, diagnostics);
}

std::vector<Check> file_checks() {
  return {[](const Loaded& loaded, config::Diagnostics& diagnostics) {
    check_against_data(loaded, std::nullopt, diagnostics);
  }};
}

Loaded load_experiment(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       config::Diagnostics& diagnostics, const std::vector<Check>& checks) {
  return checked(read_experiment(file, overrides, diagnostics), checks, diagnostics);
}

Loaded load_experiment_text(const std::string& name, std::string_view text,
                            const std::vector<std::string>& overrides,
                            config::Diagnostics& diagnostics) {
  config::LoadedTree tree{config::load_text(name, text, diagnostics), {}};
  return checked(read_tree(std::move(tree), overrides, diagnostics), file_checks(), diagnostics);
}

Loaded overridden(Loaded loaded, const std::vector<std::string>& overrides,
                  config::Diagnostics& diagnostics) {
  std::vector<std::string> changes = overrides;
  std::ranges::transform(changes, changes.begin(), as_fallback);
  config::apply_overrides(loaded.tree, changes, diagnostics,
                          {&experiment_schema(), &vocabulary_in_use()});
  return typed({std::move(loaded.tree), std::move(loaded.files)}, diagnostics);
}

const config::Schema& experiment_schema() { return *config::Codec<Experiment>::schema(); }

config::Node resolved_tree(const Loaded& loaded) {
  config::Node written = config::write_options(experiment_schema(), &loaded.experiment);
  remove_applied_split(written, loaded.experiment);
  return config::with_origins(std::move(written), loaded.tree);
}

std::string dump_resolved(const Loaded& loaded) {
  return config::dump(resolved_tree(loaded), {.comments = config::Comments::origins});
}

const config::Vocabulary& builtin_vocabulary() {
  static const config::Vocabulary vocabulary = [] {
    config::Vocabulary all;
#define TRAINCTL_ADD(kind, name, Type) all.add<kind::Type>(#kind, #name);
    TRAINCTL_FOR_EACH_STAGE(TRAINCTL_ADD)
#undef TRAINCTL_ADD
    return all;
  }();
  return vocabulary;
}

std::optional<std::string_view> builtin_text(const std::string& file) {
  if (!file.starts_with(kBuiltinPrefix)) return std::nullopt;
  const std::string name = file.substr(kBuiltinPrefix.size());
  const auto& all = builtin_experiments();
  const auto found = std::ranges::find(all, name, &BuiltinExperiment::name);
  std::vector<std::string> names;
  for (const BuiltinExperiment& one : all) names.emplace_back(one.name);
  ENSURE(config, found != all.end(), "unknown built-in experiment {}\nhint: {}",
         config::quote(name), config::unknown_name_hint(name, names));
  return found->yaml;
}

}  // namespace trainctl::spec
