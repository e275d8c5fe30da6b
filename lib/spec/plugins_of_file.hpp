#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"
#include "spec/experiment/experiment.hpp"

#include <string>
#include <vector>

namespace trainctl::spec {

/// Loads the plug-ins that `files`, the tree before its overrides, and the overrides name, and
/// makes them the ones in use: none, where there are none. What is wrong with one is a problem at
/// the place that names it.
void use_plugins_of(const config::Node& files, const std::vector<std::string>& overrides,
                    config::Diagnostics& diagnostics);

/// Where the libraries were found: a worker looks for them there.
void resolve_plugins(Experiment& experiment);

}  // namespace trainctl::spec
