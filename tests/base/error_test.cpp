#include "base/error.hpp"

#include "support/catch.hpp"

using namespace trainctl;

TEST_CASE("an error carries its kind as exit code and its frames outermost first") {
  try {
    in_context("mnist.yaml", [] {
      in_context("optimizer 'sgd'",
                 [] { ENSURE(config, 1 > 2, "lr must be above {}, found {}", 0, -1); });
    });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(std::string(error.what()) == "mnist.yaml: optimizer 'sgd': lr must be above 0, found -1");
    CHECK(error.message() == "lr must be above 0, found -1");
  }
}

TEST_CASE("a broken assertion is a bug of ours") {
  const auto broken = [] { ASSERT(1 == 2); };
  try {
    broken();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unexpected);
  }
}
