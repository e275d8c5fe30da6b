#pragma once

#include "base/error.hpp"

#include <exception>

namespace trainctl::engine {

/// What was thrown, as an Error: the last edge before the front half. libtorch's exceptions lose
/// their stack traces, out of memory becomes ErrorKind::resource.
Error as_error(const std::exception_ptr& thrown);

}  // namespace trainctl::engine
