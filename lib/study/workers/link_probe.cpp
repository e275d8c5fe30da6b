#include "study/workers/link_probe.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/supervisor.hpp"
#include "spec/experiment/task.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/scratch_folder.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/gpu_probe.hpp"
#include "study/workers/worker_launch.hpp"

#include <string>
#include <variant>

namespace trainctl::study {
namespace {

spec::Trainer trainer_for(const LinkRequest& request) {
  spec::Trainer trainer;
  trainer.accelerator = request.on_gpus ? spec::Accelerator::gpu : spec::Accelerator::cpu;
  trainer.devices.value = request.ranks;
  trainer.num_threads.value = 1;  // a sum is copied, not computed
  return trainer;
}

/// The worker's own sentence where it said one.
Error failure_of(const launch::Outcome& outcome) {
  const auto& failure = outcome.first_failure;
  const std::string cause =
      failure && !failure->message.empty() ? failure->message : outcome.message;
  return {static_cast<ErrorKind>(outcome.exit_code), "the link could not be measured: " + cause};
}

}  // namespace

LinkPlaces link_places() {
  const Machine machine = read_machine();
  const int gpus = machine.gpus.empty() ? 0 : launch::probe_gpus().count;
  return {gpus, machine.cores};
}

events::LinkMeasured measure_link(const LinkRequest& request) {
  ASSERT(request.ranks >= 2);
  const launch::SignalGuard guard;
  const ScratchFolder folder(temporary_folder());
  const FolderLock lock(folder.path());
  make_folder(folder.path() / "logs");
  write_atomically(folder.path() / spec::kTaskFile,
                   spec::dump_task({.kind = spec::TaskKind::link}));
  const spec::Trainer trainer = trainer_for(request);
  const Machine machine = read_machine();
  const DeviceChoice devices =
      choose_devices(trainer, machine, [] { return launch::probe_gpus(); });
  launch::LaunchSpec launch =
      worker_launch({request.executable, folder.path(), trainer, machine, devices});
  launch.world_size = devices.ranks;
  launch.stop_grace_s = launch.grace_s;  // there is nothing to save
  std::optional<events::LinkMeasured> measured;
  const auto on_event = [&](int /*rank*/, const events::Event& event) {
    if (const auto* found = std::get_if<events::LinkMeasured>(&event)) measured = *found;
  };
  const launch::Outcome outcome = launch::supervise(
      launch, on_event, [] {}, steady_clock());
  if (outcome.exit_code != 0) throw failure_of(outcome);
  ENSURE(unexpected, measured.has_value(), "the workers ended without a measured link");
  return *measured;
}

}  // namespace trainctl::study
