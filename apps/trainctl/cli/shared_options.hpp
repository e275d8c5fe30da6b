#pragma once

#include "data/core/pipeline.hpp"

#include <string>

namespace CLI {
class App;
}

namespace trainctl::app {

/// --split train|val|test.
void add_split_argument(CLI::App& verb, std::string& split);

/// How the split is loaded in a run.
data::Role role_of(const std::string& split);

}  // namespace trainctl::app
