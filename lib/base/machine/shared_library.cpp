#include "base/machine/shared_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

std::string path_of(const char* library) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& candidate : {folder / ".." / "lib" / library, folder / library}) {
    if (fs::exists(candidate, ignored)) return candidate.string();
  }
  return library;
}

}  // namespace

void* find_in_module(const char* library, const char* symbol, const char*& cause) {
  void* handle = ::dlopen(path_of(library).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = handle == nullptr ? nullptr : ::dlsym(handle, symbol);
  const char* message = found == nullptr ? ::dlerror() : nullptr;
  cause = message == nullptr ? "unknown cause" : message;
  return found;
}

}  // namespace trainctl
