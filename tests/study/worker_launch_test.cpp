#include "study/worker_launch.hpp"

#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::study;
using launch::Waiting;

TEST_CASE("threads spin only while nobody else needs the cores") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 4;
  DeviceChoice devices;
  devices.ranks = 2;
  const WorkerLaunch wish{"trainctl", "run", trainer, machine, devices};
  CHECK(waiting_of(wish, 0) == Waiting::spin);
  CHECK(waiting_of(wish, 60) == Waiting::sleep);
  trainer.num_threads.value = 2;
  CHECK(waiting_of(wish, 0) == Waiting::spin);
  trainer.num_threads.value = 3;
  CHECK(waiting_of(wish, 0) == Waiting::sleep);
}

TEST_CASE("trainer.hang_timeout is the supervisor's limit; auto leaves it to the steps") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 2;
  const DeviceChoice devices;
  const WorkerLaunch wish{"trainctl", "run", trainer, machine, devices};
  CHECK_FALSE(worker_launch(wish).hang_timeout_s);
  trainer.hang_timeout.value = "1m30s";
  CHECK(worker_launch(wish).hang_timeout_s == 90.0);
}
