#include "study/workers/devices.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <cstdlib>

using namespace trainctl;
using namespace trainctl::study;

namespace {

Machine with_files(std::size_t count) {
  Machine machine;
  for (std::size_t i = 0; i < count; ++i) machine.gpus.push_back("/dev/nvidia" + std::to_string(i));
  return machine;
}

/// Sets CUDA_VISIBLE_DEVICES during its lifetime.
struct Visible {
  explicit Visible(const char* list) { ::setenv("CUDA_VISIBLE_DEVICES", list, 1); }
  ~Visible() { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;
};

launch::ProbeGpus driver_with(int count) {
  return [count] {
    return launch::GpuProbe{count, count == 0 ? "the CUDA driver returned error 999" : ""};
  };
}

launch::GpuProbe never() {
  FAIL("the driver was asked");
  return {};
}

spec::Trainer trainer(spec::Accelerator accelerator, std::optional<int> devices = {}) {
  spec::Trainer made;
  made.accelerator = accelerator;
  made.devices.value = devices;
  return made;
}

}  // namespace

using enum spec::Accelerator;

TEST_CASE("devices: the driver is not asked on the CPU or without device files") {
  CHECK_FALSE(choose_devices(trainer(cpu), with_files(4), never).gpu);
  CHECK(choose_devices(trainer(cpu, 3), with_files(4), never).ranks == 3);
  const DeviceChoice choice = choose_devices(trainer(automatic), with_files(0), never);
  CHECK_FALSE(choice.gpu);
  CHECK(choice.ranks == 1);
  CHECK(choice.warning.empty());
}

TEST_CASE("devices: one rank per GPU of the driver, regardless of the device files") {
  const DeviceChoice choice = choose_devices(trainer(automatic), with_files(4), driver_with(2));
  CHECK(choice.gpu);
  CHECK(choice.ranks == 2);
  CHECK(choose_devices(trainer(gpu, 1), with_files(4), driver_with(2)).ranks == 1);
}

TEST_CASE("devices: without a driver the run uses the CPU with one rank and a warning") {
  const DeviceChoice choice = choose_devices(trainer(automatic), with_files(4), driver_with(0));
  CHECK_FALSE(choice.gpu);
  CHECK(choice.ranks == 1);
  CHECK_THAT(choice.warning, Contains("this machine has 4 GPUs") && Contains("error 999") &&
                                 Contains("on the CPU"));
}

TEST_CASE("devices: data_parallel is one rank for all GPUs, and an error on CPUs") {
  spec::Experiment experiment;
  experiment.trainer = trainer(automatic);
  CHECK(devices_of_run(experiment, with_files(4), driver_with(4)).ranks == 4);
  experiment.distributed.type = spec::Strategy::data_parallel;
  const DeviceChoice choice = devices_of_run(experiment, with_files(4), driver_with(4));
  CHECK(choice.gpu);
  CHECK(choice.ranks == 1);
  CHECK(choice.visible == 4);
  CHECK_THROWS_WITH(
      devices_of_run(experiment, with_files(4), driver_with(0)),
      Contains("but this run is on CPUs; data_parallel is slower than ddp by design"));
}

TEST_CASE("devices: a requested but missing GPU is a resource error with the reason") {
  try {
    choose_devices(trainer(gpu), with_files(4), driver_with(0));
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 11);
    CHECK_THAT(error.what(), Contains("error 999") && Contains("trainer.accelerator=cpu"));
  }
  CHECK_THROWS_WITH(choose_devices(trainer(automatic, 3), with_files(4), driver_with(2)),
                    Contains("trainer.devices is 3, but the CUDA driver finds 2 GPUs"));
  const Visible none("-1");
  CHECK_THROWS_WITH(choose_devices(trainer(gpu), with_files(0), never),
                    Contains("CUDA_VISIBLE_DEVICES is '-1'"));
}

TEST_CASE("devices: a GPU that CUDA_VISIBLE_DEVICES names is never replaced by the CPU silently") {
  for (const char* list : {"7", "GPU-8a6b", "MIG-1234"}) {
    CAPTURE(list);
    const Visible named(list);
    for (const std::size_t files : {std::size_t{0}, std::size_t{2}}) {
      CHECK_THROWS_WITH(choose_devices(trainer(automatic), with_files(files), driver_with(0)),
                        Contains("cannot use the GPU that CUDA_VISIBLE_DEVICES names") &&
                            Contains("error 999") && Contains("trainer.accelerator=cpu"));
      CHECK(choose_devices(trainer(automatic), with_files(files), driver_with(1)).gpu);
    }
    CHECK_FALSE(choose_devices(trainer(cpu), with_files(2), never).gpu);
  }
  const Visible hidden("");
  CHECK_FALSE(choose_devices(trainer(automatic), with_files(0), never).gpu);
}

TEST_CASE("devices: a list chooses among the visible GPUs, and names them for the workers") {
  spec::Trainer listed = trainer(automatic);
  listed.devices = {.value = 2, .gpus = {3, 1}};
  const DeviceChoice choice = choose_devices(listed, with_files(4), driver_with(4));
  CHECK(choice.ranks == 2);
  CHECK(choice.gpus == std::vector{3, 1});
  CHECK(choice.names == "3,1");
  CHECK_THROWS_WITH(choose_devices(listed, with_files(4), driver_with(3)),
                    Contains("trainer.devices lists GPU 3, but the CUDA driver finds 3 GPUs"));
  const Visible chosen("7,GPU-8a6b,5,4");
  CHECK(choose_devices(listed, with_files(4), driver_with(4)).names == "4,GPU-8a6b");
  listed.accelerator = cpu;
  CHECK_THROWS_WITH(choose_devices(listed, with_files(4), never),
                    Contains("lists GPUs, but the run is on CPUs") &&
                        Contains("trainer.devices=2 for as many processes"));
}

TEST_CASE(
    "set_devices: a smaller number keeps the first GPUs of a list, a larger one all devices") {
  spec::Trainer listed = trainer(automatic);
  listed.devices = {.value = 2, .gpus = {3, 1}};
  set_devices(listed, 1);
  CHECK(choose_devices(listed, with_files(4), driver_with(4)).names == "3");
  set_devices(listed, 4);
  CHECK_FALSE(listed.devices.is_list());
  CHECK(choose_devices(listed, with_files(4), driver_with(4)).ranks == 4);
}

TEST_CASE("devices: GPUs that CUDA_VISIBLE_DEVICES names and the driver lacks cause a warning") {
  const Visible three("0,1,7");
  CHECK_THAT(choose_devices(trainer(automatic), with_files(2), driver_with(2)).warning,
             Contains("names 3 GPUs ('0,1,7'), but the CUDA driver finds only 2"));
  CHECK(choose_devices(trainer(automatic), with_files(2), driver_with(3)).warning.empty());
  CHECK(choose_devices(trainer(automatic, 1), with_files(2), driver_with(2)).warning.empty());
}
