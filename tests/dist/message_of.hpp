#pragma once

#include "base/error.hpp"
#include "support/catch.hpp"

#include <exception>
#include <string>

/// The sentence of what a rank has thrown, which has to be of that kind.
inline std::string message_of(const std::exception_ptr& thrown, trainctl::ErrorKind kind) {
  REQUIRE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (const trainctl::Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
}
