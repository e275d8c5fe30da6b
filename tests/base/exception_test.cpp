#include "base/error.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

using namespace trainctl;

TEST_CASE("to_error: system errors are resource errors, and other exceptions are unexpected") {
  const Error memory = to_error(std::bad_alloc());
  CHECK(memory.kind() == ErrorKind::resource);
  CHECK_THAT(memory.message(), StartsWith("out of memory: "));
  const Error thread =
      to_error(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(thread.kind() == ErrorKind::resource);
  CHECK_THAT(thread.hint(), Contains("ulimit -u"));
  const Error file = to_error(std::filesystem::filesystem_error(
      "x", "data/a\x1b.csv", std::make_error_code(std::errc::permission_denied)));
  CHECK(file.kind() == ErrorKind::resource);
  CHECK(file.message() == "cannot access data/a\\x1b.csv: Permission denied");
  CHECK(to_error(std::logic_error("oops")).kind() == ErrorKind::unexpected);
  CHECK(to_error(Error(ErrorKind::data, "bad row")).kind() == ErrorKind::data);
}
