#pragma once

#include "base/error.hpp"
#include "support/catch.hpp"

#include <exception>
#include <string>

/// Returns the message of the exception of a rank, which must be of this kind.
inline std::string message_of(const std::exception_ptr& thrown, trainctl::ErrorKind kind) {
  REQUIRE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const trainctl::Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
}
