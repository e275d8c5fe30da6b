#include "study/worker_launch.hpp"

#include "support/catch.hpp"

using namespace trainctl;
using launch::Waiting;

TEST_CASE("threads spin only while nobody else needs the cores") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 4;
  study::DeviceChoice devices;
  devices.ranks = 2;
  const study::WorkerLaunch wish{"trainctl", "run", trainer, machine, devices};
  CHECK(study::waiting_of(wish, 0) == Waiting::spin);
  CHECK(study::waiting_of(wish, 60) == Waiting::sleep);
  trainer.num_threads.value = 2;
  CHECK(study::waiting_of(wish, 0) == Waiting::spin);
  trainer.num_threads.value = 3;
  CHECK(study::waiting_of(wish, 0) == Waiting::sleep);
}
