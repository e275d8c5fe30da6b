#pragma once

#include "config/schema/describe.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/loader.hpp"
#include "data/loader/loading_plan.hpp"
#include "spec/experiment/experiment.hpp"
#include "weights/import.hpp"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

/// --split train|val|test.
void add_split_argument(CLI::App& verb, std::string& split);

/// How the split is loaded in a run.
data::Role role_of(const std::string& split);

}  // namespace trainctl::app

namespace CLI {
class App;
}

namespace trainctl::app {

/// Which tensors of a file of weights are taken, and under which names.
struct SelectionFlags {
  std::string section;
  std::string prefix;
  std::vector<std::string> key_map;  // "FROM=TO"
};

/// Adds --section, --prefix and --key-map.
void add_selection_flags(CLI::App& verb, SelectionFlags& flags);

/// Throws Error(config) for a --key-map that is not FROM=TO.
weights::Selection selection_of(const SelectionFlags& flags);

}  // namespace trainctl::app

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trainctl::app {

/// A whole number or the word `auto`, as the experiment file has it; absent where the file decides.
using AutoOption = std::optional<config::Auto<int>>;

/// Adds such an option, of numbers from `least` to `most`.
CLI::Option& add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                             const std::string& text, int least, int most);

/// Returns the threads and batches ahead for a verb that trains nothing and takes batches as fast
/// as they come: as `requested`, and measured by a probe where that is `auto`.
data::LoadingChoice choose_for_reading(const spec::Loader& requested,
                                       const data::Pipeline& pipeline,
                                       const data::LoaderOptions& options);

}  // namespace trainctl::app

namespace CLI {
class App;
}

namespace trainctl::app {

/// Adds --plugin FILE, for verbs that tell what there is without an experiment.
void add_plugin_option(CLI::App& verb, std::vector<std::string>& libraries);

/// Makes these the plug-ins in use. Throws Error(config).
void use_plugin_files(const std::vector<std::string>& libraries);

/// From now on each plug-in is loaded by a process of its own first: one that crashes there is an
/// error and no end of this program. Called once, by main.
void try_plugins_apart();

}  // namespace trainctl::app
