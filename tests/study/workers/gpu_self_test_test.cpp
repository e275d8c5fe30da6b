#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "study/workers/worker_jobs.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;
using events::GpuChecked;

namespace {

report::GpuTest test(const std::string& script, int ranks = 1) {
  const TempFolder folder;
  const study::RunRequest request = fake_run::request(folder, script);
  return study::test_gpus({request.executable, ranks, /*on_gpus=*/false});
}

std::string begin_of_test() {
  return fake_run::emit(events::Hello{.host = "here", .device = "cuda:0"}) +
         fake_run::emit(GpuChecked{.check = "matmul fp32"}) +
         fake_run::emit(GpuChecked{.check = "matmul fp32", .done = true});
}

}  // namespace

TEST_CASE("GPU self-test: workers get a job without an experiment, and their checks are kept") {
  const std::string checks =
      "grep -q '\"kind\": \"gpu\"' \"$3/task.json\" || exit 1\n"
      "test ! -e \"$3/config.resolved.yaml\" || exit 1\n";
  const report::GpuTest result =
      test(checks + begin_of_test() + fake_run::emit(events::Finished{.stop_reason = "tested"}));
  CHECK(result.failure.empty());
  REQUIRE(result.checks.size() == 1);
  CHECK(result.checks[0].done);
}

TEST_CASE("GPU self-test: a crash of a worker is a result that names the check") {
  const report::GpuTest result =
      test(begin_of_test() + fake_run::emit(GpuChecked{.check = "cuda graph"}) + "kill -SEGV $$\n");
  CHECK_THAT(result.failure, Contains("SIGSEGV"));
  CHECK(result.failed_gpu == 0);
  REQUIRE(result.checks.size() == 2);
  CHECK(result.checks[1].check == "cuda graph");
  CHECK_FALSE(result.checks[1].done);
}

TEST_CASE("GPU self-test: the error of a worker is a result") {
  const report::GpuTest result =
      test(begin_of_test() + fake_run::emit(events::Failed{.kind = 11, .message = "no memory"}) +
           "exit 11\n");
  CHECK_THAT(result.failure, Contains("no memory"));
}
