#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "study/workers/worker_jobs.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;

namespace {

events::LinkMeasured probe_with(const std::string& script, int ranks = 2) {
  const TempFolder folder;
  const study::RunRequest request = fake_run::request(folder, script);
  return study::measure_link({request.executable, ranks, /*on_gpus=*/false});
}

std::string measured_line(int ranks) {
  events::LinkMeasured link;
  link.backend = "gloo";
  link.ranks = ranks;
  link.bytes = {1024};
  link.seconds = {0.001};
  link.repeats = {5};
  return fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
         "test \"$RANK\" != 0 || " + fake_run::emit(link) +
         fake_run::emit(events::Finished{.stop_reason = "measured"});
}

}  // namespace

TEST_CASE("link probe: workers get a job and a store but no experiment") {
  const std::string checks =
      "grep -q '\"kind\": \"link\"' \"$3/task.json\" || exit 1\n"
      "test ! -e \"$3/config.resolved.yaml\" || exit 1\n"
      "test -n \"$TRAINCTL_STORE_FD\" || exit 1\n"
      "test \"$TRAINCTL_ACCELERATOR\" = cpu || exit 1\n"
      "test \"$WORLD_SIZE\" = 3 || exit 1\n";
  const events::LinkMeasured link = probe_with(checks + measured_line(3), 3);
  CHECK(link.ranks == 3);
  CHECK(link.seconds == std::vector<double>{0.001});
}

TEST_CASE("link probe: the error of a worker is the error of the probe") {
  const std::string failing =
      fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
      fake_run::emit(events::Failed{.kind = 11, .message = "there is no port"}) + "exit 11\n";
  try {
    (void)probe_with(failing);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 11);
    CHECK_THAT(error.what(), Contains("cannot measure the link") && Contains("there is no port"));
  }
}

TEST_CASE("link probe: workers without a measurement are an error") {
  CHECK_THROWS_WITH(probe_with(fake_run::emit(events::Hello{.host = "here", .device = "cpu"}) +
                               fake_run::emit(events::Finished{.stop_reason = "measured"})),
                    Contains("without a link measurement"));
}
