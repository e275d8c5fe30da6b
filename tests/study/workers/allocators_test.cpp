#include "base/error.hpp"
#include "base/machine/allocator.hpp"
#include "study/workers/worker_launch.hpp"
#include "support/catch.hpp"
#include "support/set_variable.hpp"

#include <string>

using namespace trainctl;
using spec::Allocator;

namespace {

/// Returns the environment that a worker gets, or the exit code and the message of the error.
std::string preload_for(Allocator asked) {
  launch::LaunchSpec launch;
  try {
    study::add_allocator(asked, launch);
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return launch.environment.contains("LD_PRELOAD") ? launch.environment["LD_PRELOAD"] : "nothing";
}

}  // namespace

TEST_CASE("allocators: the allocator of the C library does not change how workers start") {
  launch::LaunchSpec launch;
  study::add_allocator(Allocator::system, launch);
  CHECK(launch.environment.empty());
  CHECK(launch.user_variables.empty());
}

TEST_CASE(
    "allocators: an allocator precedes the user's LD_PRELOAD, or the error names its package") {
  const SetVariable preload("LD_PRELOAD", "libmine.so");
  for (const study::AllocatorLibrary& library : study::allocator_libraries()) {
    INFO(library.name);
    const std::string found = preload_for(library.allocator);
    if (const auto file = find_shared_library(library.file)) {
      CHECK(found == file->string() + ":libmine.so");
    } else {
      CHECK_THAT(found, Contains("11 ") && Contains(library.file) && Contains(library.package));
    }
  }
}

TEST_CASE("allocators: settings of the user are kept") {
  for (const study::AllocatorLibrary& library : study::allocator_libraries()) {
    if (!find_shared_library(library.file)) continue;
    launch::LaunchSpec launch;
    study::add_allocator(library.allocator, launch);
    REQUIRE_FALSE(launch.user_variables.empty());
    CHECK(launch.environment.size() ==
          launch.user_variables.size() + 1);  // plus the preload variable
    for (const std::string& name : launch.user_variables) CHECK(launch.environment.contains(name));
  }
}

TEST_CASE("allocators: every name except the first has a library") {
  const auto names = enum_names(Allocator{});
  REQUIRE(study::allocator_libraries().size() + 1 == names.size());
  for (const study::AllocatorLibrary& library : study::allocator_libraries())
    CHECK(std::string(library.name) == names.at(static_cast<std::size_t>(library.allocator)));
}
