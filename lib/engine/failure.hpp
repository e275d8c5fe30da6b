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
/// the stack traces of libtorch's exceptions. Out of memory and failures of the GPU's hardware or
/// driver become ErrorKind::resource, an operation that trainer.deterministic forbids
/// ErrorKind::config, and a failed kernel ErrorKind::unexpected.
Error as_error(const std::exception_ptr& thrown);

/// Returns the message of an allocation that failed on a GPU or the host: by an allocator, by CUDA
/// itself (contexts, page-locked memory) or by one of its libraries. Returns nullopt for any other
/// exception.
std::optional<std::string> refused_memory(const std::exception_ptr& thrown);

}  // namespace trainctl::engine
