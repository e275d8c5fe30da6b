#pragma once

// This program: what it was built from, and where it and its engine are.

#include "base/files.hpp"
#include "engine/entry.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

namespace trainctl::app {

/// What this binary was built from; written by cmake/TrainctlBuildInfo.cmake.
struct BuildInfo {
  const char* version;     // "0.1.0"
  const char* git;         // commit, with "-dirty" where the tree had changes; empty: no repository
  const char* build_type;  // "RelWithDebInfo"
  const char* compiler;    // "GNU 12.2.0"
  bool has_engine;         // TRAINCTL_ENGINE
  bool has_kernels;        // a CUDA compiler was found
  const char* cuda;        // TRAINCTL_CUDA
  const char* torch_lib;   // folder of libtorch at build time; empty without the engine
  std::array<std::pair<const char*, const char*>, 6> libraries;
};

extern const BuildInfo kBuildInfo;

/// "0.1.0 (1a2b3c4d5e6f)".
std::string version_text();

/// Path of this executable.
fs::path executable_path();

/// libtrainctl_engine.so beside the executable or in the lib folder beside its folder; nothing
/// where it was not built.
std::optional<fs::path> find_engine_library();

/// Loads the engine (and libtorch with it; about a second) and returns its entry point. The library
/// stays loaded. Throws Error(resource) that says what is missing and how to get it.
TrainctlEngineRun load_engine();

}  // namespace trainctl::app
