#pragma once

#include <array>
#include <string>
#include <utility>

namespace trainctl::app {

/// What this binary was built from; written by cmake/TrainctlBuildInfo.cmake.
struct BuildInfo {
  const char* version;  // "0.1.0"
  const char*
      git;  // commit, with "-dirty" where the tree had changes; empty: not built from a repository
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

}  // namespace trainctl::app
