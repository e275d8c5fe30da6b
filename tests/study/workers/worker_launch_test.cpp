#include "study/workers/worker_launch.hpp"

#include "base/machine/machine.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;
using launch::OmpWaitPolicy;

TEST_CASE("waiting: threads spin only if no other process needs the cores") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 4;
  DeviceChoice devices;
  devices.ranks = 2;
  const WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  CHECK(choose_omp_wait_policy(workers, 0) == OmpWaitPolicy::spin);
  CHECK(choose_omp_wait_policy(workers, 60) == OmpWaitPolicy::sleep);
  trainer.num_threads.value = 2;
  CHECK(choose_omp_wait_policy(workers, 0) == OmpWaitPolicy::spin);
  trainer.num_threads.value = 3;
  CHECK(choose_omp_wait_policy(workers, 0) == OmpWaitPolicy::sleep);
}

TEST_CASE("NCCL watchdog: the limit is distributed.timeout_s unless the user sets it") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 2;
  DeviceChoice devices;
  WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  workers.collective_timeout_s = 90.2;
  constexpr const char* kLimit = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";
  CHECK_FALSE(worker_launch(workers).environment.contains(kLimit));
  devices.gpu = true;
  const launch::LaunchSpec launch = worker_launch(workers);
  CHECK(launch.environment.at(kLimit) == "91");
  CHECK(launch.environment.at("TORCH_NCCL_DUMP_ON_TIMEOUT") == "0");
  CHECK(std::ranges::find(launch.user_variables, kLimit) != launch.user_variables.end());
}

TEST_CASE("trainer.devices: the workers see only the GPUs that it lists") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 2;
  DeviceChoice devices;
  const WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  CHECK_FALSE(worker_launch(workers).environment.contains("CUDA_VISIBLE_DEVICES"));
  devices = {.gpu = true, .ranks = 2, .visible = 4, .gpus = {3, 1}, .names = "3,1"};
  CHECK(worker_launch(workers).environment.at("CUDA_VISIBLE_DEVICES") == "3,1");
}

TEST_CASE("trainer.hang_timeout: is the supervisor's limit, and auto sets none") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 2;
  const DeviceChoice devices;
  const WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  CHECK_FALSE(worker_launch(workers).hang_timeout_s);
  trainer.hang_timeout.value = "1m30s";
  CHECK(worker_launch(workers).hang_timeout_s == 90.0);
}

TEST_CASE(
    "stop request: waits for accumulated batches, and on several GPUs for the next consensus") {
  spec::Trainer trainer;
  Machine machine;
  machine.cores = 2;
  DeviceChoice devices;
  const WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  CHECK(worker_launch(workers).batches_to_stop == 1);
  trainer.accumulate_grad_batches = 64;
  CHECK(worker_launch(workers).batches_to_stop == 64);
  devices.gpu = true;
  CHECK(worker_launch(workers).batches_to_stop == 64);
  devices.ranks = 2;
  CHECK(worker_launch(workers).batches_to_stop == 1280);
  trainer.log_every_n_steps = 4;
  CHECK(worker_launch(workers).batches_to_stop == 512);
}

TEST_CASE("cores: ranks get dedicated cores only if nothing else uses or assigns them") {
  const spec::Trainer trainer;
  Machine machine;
  const auto allowed = allowed_cores();
  machine.cores = static_cast<int>(allowed.size());
  DeviceChoice devices;
  const WorkerLaunch workers{"trainctl", "run", trainer, machine, devices};
  CHECK(cores_of(workers, OmpWaitPolicy::spin).empty());  // there is a single rank
  devices.ranks = 2;
  CHECK(cores_of(workers, OmpWaitPolicy::sleep).empty());
  if (allowed.size() < 4) {  // each part would be a single core
    CHECK(cores_of(workers, OmpWaitPolicy::spin).empty());
    return;
  }
  const auto own = cores_of(workers, OmpWaitPolicy::spin);
  REQUIRE(own.size() == 2);
  std::vector<int> both = own[0];
  both.insert(both.end(), own[1].begin(), own[1].end());
  std::ranges::sort(both);
  CHECK(both == allowed);
  machine.cores = 1;  // as with a CPU quota
  CHECK(cores_of(workers, OmpWaitPolicy::spin).empty());
  machine.cores = static_cast<int>(allowed.size());
  ::setenv("OMP_PROC_BIND", "false", 1);
  CHECK(cores_of(workers, OmpWaitPolicy::spin).empty());
  ::unsetenv("OMP_PROC_BIND");
}
