#pragma once

#include <string>
#include <vector>

namespace trainctl::data {

/// A library that the data pipeline reads with.
struct Library {
  std::string name;
  std::string version;  // empty: it is not there
  std::string cause;    // why not
};

/// Those that the program is linked with.
std::vector<Library> linked_libraries();
/// Those that are loaded when they are first needed, and are loaded now, which takes a moment:
/// OpenCV, Arrow, libcurl.
std::vector<Library> loaded_libraries();

/// Whether files are read through io_uring: the build has it, and the kernel or a container's
/// policy does not refuse it.
bool reads_through_uring();

}  // namespace trainctl::data
