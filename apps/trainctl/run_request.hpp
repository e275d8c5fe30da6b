#pragma once

#include "config_arguments.hpp"
#include "context.hpp"
#include "study/run.hpp"

namespace trainctl::app {

/// A run of `loaded` by this program; `config` is what was typed. The folder's root is the caller's
/// choice.
study::RunRequest request_of(spec::Loaded loaded, const ConfigArguments& config,
                             const Context& context);

}  // namespace trainctl::app
