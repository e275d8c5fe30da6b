#pragma once

#include "base/error.hpp"
#include "launch/process/sandbox.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainctl::launch {

struct IsolatedResult {
  std::string text;                  // what the body returned
  std::uint64_t peak_rss_bytes = 0;  // of the child
};

struct Isolation {
  std::string who = "the measuring process";  // as errors call it
  std::optional<Sandbox> sandbox = {};        // which it enters first
};

/// No child could be made: what it was to do has nothing to do with it.
struct NotStarted : Error {
  using Error::Error;
};

/// Runs `body` in a forked child, so that what it allocates and touches is its own. Called while
/// this process has one thread. Throws NotStarted(resource). An exception of the body is thrown
/// here as an Error of its kind; a child that a signal ended is Error(resource) where it was
/// killed, else Error(unexpected).
IsolatedResult run_isolated(const std::function<std::string()>& body, const Isolation& how = {});

}  // namespace trainctl::launch
