#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace trainctl::fuzz {

/// Returns a folder in memory for readers that open paths. It exists until the process exits. The
/// readers cannot write a cache, because HOME and XDG_CACHE_HOME are unset.
inline const fs::path& folder() {
  static const fs::path path = [] {
    ::unsetenv("XDG_CACHE_HOME");
    ::unsetenv("HOME");
    std::string pattern = fs::exists("/dev/shm") ? "/dev/shm/fuzz-XXXXXX" : "/tmp/fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    return fs::path(pattern);
  }();
  return path;
}

inline void put(const std::string& name, const std::uint8_t* data, std::size_t size) {
  std::ofstream(folder() / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

/// Runs `body`; bad input must throw Error(data) with a message.
template <class Body>
void expect_data_error(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || error.message().empty()) std::abort();
  }
}

}  // namespace trainctl::fuzz
