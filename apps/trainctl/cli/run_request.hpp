#pragma once

#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "study/run/run.hpp"

namespace trainctl::app {

/// A run of `loaded` by this program; `config` is what was typed. The folder's root is the caller's
/// choice.
study::RunRequest request_of(spec::Loaded loaded, const ConfigArguments& config,
                             const Context& context);

}  // namespace trainctl::app
