#pragma once

#include "engine/entry.h"

#include <filesystem>
#include <optional>

namespace trainctl::app {

/// Path of this executable.
std::filesystem::path executable_path();

/// libtrainctl_engine.so beside the executable or in the lib folder beside its folder; nothing
/// where it was not built.
std::optional<std::filesystem::path> find_engine_library();

/// Loads the engine (and libtorch with it; about a second) and returns its entry point. The library
/// stays loaded. Throws Error(resource) that says what is missing and how to get it.
TrainctlEngineRun load_engine();

}  // namespace trainctl::app
