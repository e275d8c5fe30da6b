#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/loader.hpp"
#include "spec/experiment.hpp"

namespace trainctl::data {

enum class Role { train, evaluate };

/// Builds the split's data set and transforms from the registry of data stages. Throws Error(data) or Error(config).
Pipeline build_pipeline(const spec::DataSplit& split);

/// The loader options the experiment asks for; `num_workers: auto` is decided here.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard);

}  // namespace trainctl::data
