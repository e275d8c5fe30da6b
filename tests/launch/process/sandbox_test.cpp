#include "base/error.hpp"
#include "base/files.hpp"
#include "launch/process/isolated_process.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace trainctl::launch;

namespace {

Isolation in_sandbox(std::vector<int> descriptors = {}) {
  return {"the reader", Sandbox{std::move(descriptors), 64 << 20, 4096, 2}};
}

/// Returns "0", or the errno of the call that the sandbox rejected.
template <class Call>
std::string outcome(Call call) {
  return run_isolated([&] { return std::to_string(call() >= 0 ? 0 : errno); }, in_sandbox()).text;
}

}  // namespace

TEST_CASE("sandbox: cannot open files, use the network or start processes") {
  const std::string refused = std::to_string(EPERM);
  CHECK(outcome([] { return ::open("/proc/self/maps", O_RDONLY); }) == refused);
  CHECK(outcome([] { return ::socket(AF_INET, SOCK_STREAM, 0); }) == refused);
  CHECK(outcome([] { return ::fork(); }) == refused);
  CHECK(outcome([] { return ::execl("/bin/true", "true", nullptr); }) == refused);
  CHECK(outcome([] { return ::kill(::getppid(), 0); }) == refused);
  CHECK(outcome([] { return ::getpid(); }) == "0");
}

TEST_CASE("sandbox: keeps only the listed descriptors") {
  const Fd kept(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const Fd closed(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const auto body = [&] {
    char byte = 'x';
    const bool reads = ::read(kept.get(), &byte, 1) == 1 && byte == 0;
    return std::string(reads ? "reads " : "") +
           (::read(closed.get(), &byte, 1) < 0 && errno == EBADF ? "closed" : "open");
  };
  CHECK(run_isolated(body, in_sandbox({kept.get()})).text == "reads closed");
}

TEST_CASE("sandbox: limits memory and time") {
  const auto large = run_isolated(
      [] {
        const void* bytes = ::mmap(nullptr, std::size_t{1} << 30, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return std::string(bytes == MAP_FAILED ? "none" : "taken");
      },
      in_sandbox());
  CHECK(large.text == "none");
  Isolation brief = in_sandbox();
  brief.sandbox->cpu_s = 1;
  CHECK_THROWS_WITH(run_isolated(
                        []() -> std::string {
                          while (::getpid() > 0) {
                          }
                          return "";
                        },
                        brief),
                    Contains("the reader was killed by signal"));
}
