#pragma once

// Information about this program: its build, and the paths of the executable and the engine.

#include "base/files.hpp"
#include "engine/entry.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

namespace trainctl::app {

/// Build settings, written by cmake/TrainctlBuildInfo.cmake.
struct BuildInfo {
  const char* version;  // "0.1.0"
  const char* git;      // commit, with "-dirty" if the tree had changes; empty without a repository
  const char* build_type;  // "RelWithDebInfo"
  const char* compiler;    // "GNU 12.2.0"
  bool has_engine;         // value of TRAINCTL_ENGINE
  bool has_kernels;        // whether a CUDA compiler was found
  const char* cuda;        // value of TRAINCTL_CUDA
  const char* torch_lib;   // folder of libtorch at build time; empty without the engine
  std::array<std::pair<const char*, const char*>, 6> libraries;
};

extern const BuildInfo kBuildInfo;

/// Returns "0.1.0 (1a2b3c4d5e6f)".
std::string version_text();

/// Returns the path of this executable.
fs::path executable_path();

/// Returns libtrainctl_engine.so in the executable's folder or in the lib folder next to that
/// folder; nothing if it was not built. Work on a GPU needs libtrainctl_engine_cuda.so, which loads
/// the CUDA libraries.
std::optional<fs::path> find_engine_library(bool with_cuda = false);

/// Loads the engine with libtorch, which takes about a second, and returns its entry point. The
/// library stays loaded. Throws Error(resource) that says what is missing and how to get it.
TrainctlEngineRun load_engine(bool with_cuda = false);

}  // namespace trainctl::app
