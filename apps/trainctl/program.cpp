#include "program.hpp"

#include "cli/verb.hpp"
#include "data/inspect/libraries.hpp"
#include "study/sweep/ledger.hpp"

#include <dlfcn.h>

namespace trainctl::app {
namespace {

constexpr const char* kEngine = "libtrainctl_engine.so";
constexpr const char* kEngineWithCuda = "libtrainctl_engine_cuda.so";

[[noreturn]] void refuse(const fs::path& library, const char* cause) {
  THROW(resource,
        "cannot load {}: {}\nhint: install libtorch with scripts/setup or with pip install "
        "'torch==2.11.*', or set TRAINCTL_TORCH_ROOT to the 'torch' folder of torch 2.11",
        library.string(), cause == nullptr ? "unknown cause" : cause);
}

/// An exception of libtorch's initializers counts as a failure to load the library.
void* open_library(const fs::path& library) {
  try {
    return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& exception) {
    refuse(library, exception.what());
  }
}

/// Returns the libraries of the build, SQLite, and the libraries that decode images.
std::vector<std::pair<std::string, std::string>> libraries_here() {
  std::vector<std::pair<std::string, std::string>> all(kBuildInfo.libraries.begin(),
                                                       kBuildInfo.libraries.end());
  all.emplace_back("SQLite", study::sqlite_version());
  for (const data::Library& one : data::linked_libraries()) {
    if (one.name != "zlib") all.emplace_back(one.name, one.version);
  }
  return all;
}

Json document() {
  Json libraries = Json::object();
  for (const auto& [name, version] : libraries_here()) libraries[name] = version;
  return {{"schema", "trainctl.version/2"},
          {"version", kBuildInfo.version},
          {"git", kBuildInfo.git},
          {"build",
           {{"type", kBuildInfo.build_type},
            {"compiler", kBuildInfo.compiler},
            {"engine", kBuildInfo.has_engine},
            {"cuda", kBuildInfo.cuda},
            {"kernels", kBuildInfo.has_kernels},
            {"torch_lib", kBuildInfo.torch_lib}}},
          {"libraries", libraries}};
}

int show_version(const Context& context) {
  if (context.json) return print_json(document());
  print("trainctl " + version_text());
  if (context.quiet) return 0;
  print(fmt::format("build      {}, {}, engine {}, cuda {}", kBuildInfo.build_type,
                    kBuildInfo.compiler, kBuildInfo.has_engine ? "on" : "off", kBuildInfo.cuda));
  std::string libraries;
  for (const auto& [name, version] : libraries_here()) {
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, version);
  }
  print("libraries  " + libraries);
  return 0;
}

}  // namespace

std::string version_text() {
  const std::string git = kBuildInfo.git;
  return kBuildInfo.version + (git.empty() ? "" : " (" + git + ")");
}

fs::path executable_path() { return fs::read_symlink("/proc/self/exe"); }

std::optional<fs::path> find_engine_library(bool with_cuda) {
  const char* const name = with_cuda ? kEngineWithCuda : kEngine;
  const fs::path folder = executable_path().parent_path();
  const std::array candidates{folder / ".." / "lib" / name, folder / name,
                              folder / ".." / "lib" / "trainctl" / name};
  for (const fs::path& candidate : candidates) {
    if (path_exists(candidate)) return fs::weakly_canonical(candidate);
  }
  return std::nullopt;
}

TrainctlEngineRun load_engine(bool with_cuda) {
  const auto library = find_engine_library(with_cuda);
  ENSURE(
      resource, library.has_value() || !with_cuda || !find_engine_library(),
      "cannot use a GPU: there is no {} next to {}\nhint: build it with the CUDA wheel of PyTorch "
      "and cmake --build --preset release, or set trainer.accelerator=cpu",
      kEngineWithCuda, executable_path().string());
  ENSURE(resource, library.has_value(),
         "cannot find {} next to {}\nhint: build it with cmake --build --preset release", kEngine,
         executable_path().string());
  void* handle = open_library(*library);
  if (handle == nullptr) refuse(*library, ::dlerror());
  void* symbol = ::dlsym(handle, TRAINCTL_ENGINE_SYMBOL);
  ENSURE(resource, symbol != nullptr,
         "cannot load {}: it belongs to another version of trainctl (it has no function {})",
         library->string(), TRAINCTL_ENGINE_SYMBOL);
  return reinterpret_cast<TrainctlEngineRun>(symbol);
}

void add_version(CLI::App& program, Context& context) {
  add_verb(program, context,
           {"version", "print version, commit, build options and libraries", kMachineGroup},
           [&context] { return show_version(context); });
}

}  // namespace trainctl::app
