#pragma once

#include "data/build.hpp"
#include "spec/experiment.hpp"

#include <string>

namespace CLI {
class App;
}

namespace trainctl::app {

/// --split train|val|test.
void add_split_argument(CLI::App& verb, std::string& split);

/// Throws Error(config) where the experiment has no such split.
const spec::DataSplit& split_called(const std::string& name, const spec::Experiment& experiment);

/// How the split is loaded in a run.
data::Role role_of(const std::string& split);

}  // namespace trainctl::app
