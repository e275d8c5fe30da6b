#pragma once

#include <string>
#include <vector>

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
