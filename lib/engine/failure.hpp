#pragma once

#include "base/error.hpp"

#include <exception>
#include <optional>
#include <string>

namespace trainctl::engine {

/// Returns the first line of an exception's text, made printable; for libtorch's exceptions without
/// the stack trace.
std::string cause_of(const std::exception& error);

/// Converts an exception into an Error, before control returns to the command-line program. Removes
/// the stack traces of libtorch's exceptions; out of memory becomes ErrorKind::resource.
Error as_error(const std::exception_ptr& thrown);

/// Returns the message of a GPU or CPU allocator that is out of memory; nullopt for any other
/// exception.
std::optional<std::string> refused_memory(const std::exception_ptr& thrown);

}  // namespace trainctl::engine
