#include "config/secret.hpp"

#include "base/error.hpp"
#include "config/schema/describe.hpp"
#include "config/support.hpp"
#include "support/catch.hpp"

#include <cstdlib>

using namespace trainctl;
using namespace trainctl::config;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kName = "TRAINCTL_TEST_SECRET";

/// Returns the error of looking up the value.
std::string failure_with(const char* value) {
  value == nullptr ? ::unsetenv(kName) : ::setenv(kName, value, 1);
  try {
    (void)Secret{kName}.value();
    return "";
  } catch (const Error& error) {
    ::unsetenv(kName);
    CHECK(error.kind() == ErrorKind::config);
    return error.message();
  }
}

}  // namespace

TEST_CASE("Secret: the value is read from the environment when it is used") {
  ::setenv(kName, "p4ss/word+=", 1);
  CHECK(Secret{kName}.value() == "p4ss/word+=");
  ::unsetenv(kName);
}

TEST_CASE("Secret: the error for an unset or invalid value names the variable, not the value") {
  for (const char* absent : {static_cast<const char*>(nullptr), ""})
    CHECK_THAT(failure_with(absent), Contains(kName) && Contains("is not set"));
  for (const char* odd : {"hunter2\n", "hunter2\r\nX-Header: 1", "hunter2 ", "hunter2\x7f"})
    CHECK_THAT(failure_with(odd), Contains(kName) && Contains("line end") && !Contains("hunter2"));
}
