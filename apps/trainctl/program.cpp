#include "program.hpp"

#include "base/error.hpp"

#include <dlfcn.h>

#include <array>

namespace trainctl::app {
namespace {

constexpr const char* kLibraryName = "libtrainctl_engine.so";

[[noreturn]] void refuse(const fs::path& library, const char* cause) {
  throw Error(ErrorKind::resource,
              fmt::format("cannot load {}: {}\nhint: install libtorch with scripts/setup, or set "
                          "TRAINCTL_TORCH_ROOT to the 'torch' folder of torch 2.11",
                          library.string(), cause == nullptr ? "unknown cause" : cause));
}

/// An exception of libtorch's initializers counts as a failure to load the library.
void* open_library(const fs::path& library) {
  try {
    return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& exception) {
    refuse(library, exception.what());
  }
}

}  // namespace

std::string version_text() {
  const std::string git = kBuildInfo.git;
  return kBuildInfo.version + (git.empty() ? "" : " (" + git + ")");
}

fs::path executable_path() { return fs::read_symlink("/proc/self/exe"); }

std::optional<fs::path> find_engine_library() {
  const fs::path folder = executable_path().parent_path();
  const std::array candidates{folder / ".." / "lib" / kLibraryName, folder / kLibraryName,
                              folder / ".." / "lib" / "trainctl" / kLibraryName};
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (fs::exists(candidate, ignored)) return fs::weakly_canonical(candidate);
  }
  return std::nullopt;
}

TrainctlEngineRun load_engine() {
  const auto library = find_engine_library();
  ENSURE(resource, library.has_value(),
         "cannot find {} next to {}\nhint: build it with cmake --build --preset release",
         kLibraryName, executable_path().string());
  void* handle = open_library(*library);
  if (handle == nullptr) refuse(*library, ::dlerror());
  void* symbol = ::dlsym(handle, TRAINCTL_ENGINE_SYMBOL);
  ENSURE(resource, symbol != nullptr, "{} has no {}: it belongs to another version of trainctl",
         library->string(), TRAINCTL_ENGINE_SYMBOL);
  return reinterpret_cast<TrainctlEngineRun>(symbol);
}

}  // namespace trainctl::app
