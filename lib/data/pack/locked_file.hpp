#pragma once

#include "base/files.hpp"

#include <functional>

namespace trainctl::data {

/// Opens the file for reading and writing, making it where there is none, and locks it for this
/// descriptor. The file it locked is the one of that name: not one that another process renamed or
/// removed meanwhile. `opened` is called between opening and locking: tests put such a change
/// there. Throws Error(resource), also where another process has the lock.
Fd open_locked(const fs::path& path, const std::function<void()>& opened = {});

}  // namespace trainctl::data
