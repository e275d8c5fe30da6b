#include "base/error.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("Error: the kind determines the exit code, and frames are listed outermost first") {
  try {
    in_context("mnist.yaml", [] {
      in_context("optimizer 'sgd'",
                 [] { ENSURE(config, 1 > 2, "lr must be above {}, got {}", 0, -1); });
    });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(std::string(error.what()) == "mnist.yaml: optimizer 'sgd': lr must be above 0, got -1");
    CHECK(error.message() == "lr must be above 0, got -1");
  }
}

TEST_CASE("Error: a hint follows the message on a separate line") {
  try {
    in_context("cache.yaml", [] { ENSURE(resource, false, "{} is locked\nhint: wait", "a"); });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.message() == "a is locked");
    CHECK(error.hint() == "wait");
    CHECK(std::string(error.what()) == "cache.yaml: a is locked\nhint: wait");
  }
  const Error without(ErrorKind::data, "no hint: none");
  CHECK(without.hint().empty());
  CHECK(without.message() == "no hint: none");
}

TEST_CASE("ASSERT: a failed assertion is an unexpected error") {
  const auto broken = [] { ASSERT(1 == 2); };
  try {
    broken();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unexpected);
  }
}
