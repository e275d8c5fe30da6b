#pragma once

#include "base/error.hpp"

#include <exception>

namespace trainctl {

/// Returns what a caught exception means to the user: Error(resource) for memory, files or threads
/// that the system refused, Error(unexpected) for anything else that is no Error.
Error to_error(const std::exception& exception);

/// Returns whether the working directory was deleted after the process or its parent entered it.
bool working_directory_is_deleted();

}  // namespace trainctl
