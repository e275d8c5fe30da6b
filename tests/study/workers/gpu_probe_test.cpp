#include "launch/job.hpp"
#include "study/workers/devices.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <map>

namespace trainctl::launch {
namespace {

GpuProbe probe(const std::map<std::string, std::string>& fake, double timeout_s = 30) {
  for (const auto& [name, value] : fake) ::setenv(name.c_str(), value.c_str(), 1);
  const GpuProbe answer = probe_gpus(TRAINCTL_FAKE_CUDA, timeout_s);
  for (const auto& [name, value] : fake) ::unsetenv(name.c_str());
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child process remains
  return answer;
}

}  // namespace

TEST_CASE("GPU probe: returns the driver's count") {
  const std::size_t descriptors = open_descriptors();
  CHECK(probe({{"FAKE_CUDA_COUNT", "4"}}).count == 4);
  CHECK(probe({{"FAKE_CUDA_COUNT", "4"}}).problem.empty());
  CHECK_THAT(probe({}).problem, Contains("finds no GPU"));
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE(
    "GPU probe: a missing, failing, crashing or hanging driver means no GPU, with the reason") {
  const GpuProbe missing = probe_gpus("libno_such_driver.so.1");
  CHECK(missing.count == 0);
  CHECK_THAT(missing.problem, Contains("cannot load the driver library libno_such_driver.so.1"));
  CHECK_THAT(probe_gpus("libm.so.6").problem, Contains("is not a CUDA driver"));
  CHECK_THAT(probe({{"FAKE_CUDA_INIT", "803"}, {"FAKE_CUDA_COUNT", "4"}}).problem,
             Contains("error 803 (system has unsupported display driver"));
  CHECK_THAT(probe({{"FAKE_CUDA_INIT", "999"}}).problem, EndsWith("error 999"));
  CHECK_THAT(probe({{"FAKE_CUDA", "crash"}}).problem, Contains("crashed"));
  const GpuProbe late = probe({{"FAKE_CUDA", "hang"}}, 0.2);
  CHECK(late.count == 0);
  CHECK_THAT(late.problem, Contains("did not answer within 0.20 s"));
}

}  // namespace trainctl::launch
