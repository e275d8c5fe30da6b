#pragma once

#include "spec/load.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

/// What the data are wanted for: training, and the evaluation of what it left, ask for more than
/// the loader can give, predicting for no labels beside those of dataset.train, and reading only
/// for the samples before their transforms.
enum class Purpose { training, evaluating, predicting, loading, reading };

/// Looks at the data sets of the experiment (file headers only), where their part of the config
/// could be read, and at what depends on their sizes. Every problem goes into `diagnostics`: as one
/// of the data where a file is at fault, as one of the config where the experiment does not fit its
/// data. The names of the classes of dataset.train in the order of their numbers; empty where
/// nobody named them.
std::vector<std::string> check_data(const spec::Loaded& loaded, Purpose purpose,
                                    config::Diagnostics& diagnostics);

}  // namespace trainctl::app
