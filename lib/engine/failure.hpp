#pragma once

#include "base/error.hpp"

#include <exception>
#include <optional>
#include <string>

namespace trainctl::engine {

/// The first line of an exception's text, printable; libtorch's exceptions lose their stack traces.
std::string cause_of(const std::exception& error);

/// What was thrown, as an Error: the last edge before the front half. libtorch's exceptions lose
/// their stack traces, out of memory becomes ErrorKind::resource.
Error as_error(const std::exception_ptr& thrown);

/// What an allocator said that had no more to give, on a GPU or a CPU; nothing where something else
/// was thrown.
std::optional<std::string> refused_memory(const std::exception_ptr& thrown);

}  // namespace trainctl::engine
