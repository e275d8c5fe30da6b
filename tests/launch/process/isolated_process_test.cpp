#include "launch/process/isolated_process.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <vector>

using namespace trainctl;
using namespace trainctl::launch;

namespace {

ErrorKind kind_of(const std::function<std::string()>& body) {
  try {
    run_isolated(body);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::stopped;
}

}  // namespace

TEST_CASE("run_isolated: returns a text of any length") {
  CHECK(run_isolated([] { return std::string(); }).text.empty());
  CHECK(run_isolated([] { return std::string(1 << 20, 'x'); }).text == std::string(1 << 20, 'x'));
}

TEST_CASE("run_isolated: the peak memory of a call does not include earlier calls") {
  constexpr std::size_t kBytes = 200'000'000;
  const auto large = run_isolated([] {
    std::vector<char> bytes(kBytes);
    std::memset(bytes.data(), 1, bytes.size());
    return std::string(1, bytes[kBytes / 2]);
  });
  const auto small = run_isolated([] { return std::string(); });
  CHECK(large.peak_rss_bytes >= kBytes);
  CHECK(small.peak_rss_bytes < large.peak_rss_bytes - kBytes / 2);
}

TEST_CASE("run_isolated: an error of the body keeps its kind and message") {
  CHECK(kind_of([]() -> std::string { throw Error(ErrorKind::data, "x"); }) == ErrorKind::data);
  CHECK(kind_of([]() -> std::string { throw std::runtime_error("x"); }) == ErrorKind::unexpected);
  CHECK_THROWS_WITH(run_isolated([]() -> std::string {
                      return in_context("sample 7", []() -> std::string {
                        throw Error(ErrorKind::data, "torn");
                      });
                    }),
                    std::string("sample 7: torn"));
}

TEST_CASE("run_isolated: distinguishes SIGKILL from other signals") {
  CHECK(kind_of([]() -> std::string {
          ::raise(SIGKILL);
          return "";
        }) == ErrorKind::resource);
  CHECK(kind_of([]() -> std::string {
          std::signal(SIGTERM, SIG_DFL);  // Catch2's handler would print a summary of the tests
          ::raise(SIGTERM);
          return "";
        }) == ErrorKind::unexpected);
}
