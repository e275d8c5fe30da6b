#pragma once

#include <string>
#include <vector>

namespace trainctl::data {

/// A library that reads data.
struct Library {
  std::string name;
  std::string version;  // empty if the library is missing
  std::string cause;    // why the library is missing
};

/// Returns the libraries that the program is linked with.
std::vector<Library> linked_libraries();
/// Returns the libraries that are loaded on demand: OpenCV, Arrow, libcurl. Loads all of them,
/// which takes a moment.
std::vector<Library> loaded_libraries();

/// Returns whether files are read through io_uring: the build includes it, and neither the kernel
/// nor a container policy forbids it.
bool reads_through_uring();

}  // namespace trainctl::data
