#include "study/workers/model_task.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/supervisor.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"

#include <csignal>
#include <string>

namespace trainctl::study {
namespace {

/// As in a run, but where its GPUs are absent the CPU stands for them.
DeviceChoice devices_for(const spec::Trainer& trainer, const Machine& machine) {
  int found = 0;
  const auto probe = [&] {
    launch::GpuProbe gpus = launch::probe_gpus();
    found = gpus.count;
    return gpus;
  };
  try {
    return choose_devices(trainer, machine, probe);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource || found > 0) throw;
    return {.gpu = false, .ranks = trainer.devices.value_or(1), .visible = 0, .warning = {}};
  }
}

/// As a run would start its first ranks.
launch::LaunchSpec launch_spec(const ModelTask& task, const fs::path& folder) {
  const spec::Trainer& trainer = task.loaded.experiment.trainer;
  const Machine machine = read_machine();
  const DeviceChoice devices =
      task.device == TaskDevice::cpu ? DeviceChoice{} : devices_for(trainer, machine);
  launch::LaunchSpec launch = worker_launch({task.executable, folder, trainer, machine, devices});
  launch.world_size = task.ranks;
  return launch;
}

/// Nearly always by the kernel, for want of memory.
bool was_killed(const launch::Outcome& outcome) {
  return outcome.first_failure && outcome.first_failure->signal == SIGKILL;
}

/// "; its log ends: ...", in one line.
std::string log_of(const launch::RankFailure& failure) {
  std::string line;
  for (const std::string& part : split(failure.log_tail, '\n')) {
    if (!part.empty()) line += (line.empty() ? "; its log ends: " : " | ") + part;
  }
  return line;
}

/// The worker's own sentence where it said one.
std::string cause_of(const launch::Outcome& outcome, const ModelTask& task) {
  const auto& failure = outcome.first_failure;
  if (!failure) return outcome.message;
  if (was_killed(outcome))
    return fmt::format("the process that {} was ended by SIGKILL, perhaps for want of memory; {}",
                       task.purpose, task.hint);
  if (failure->message.empty()) return outcome.message + log_of(*failure);
  return failure->message + log_of(*failure);
}

Error failure_of(const launch::Outcome& outcome, const ModelTask& task) {
  const auto kind = static_cast<ErrorKind>(outcome.exit_code);
  const bool for_memory = kind == ErrorKind::rank_failed && was_killed(outcome);
  return {for_memory ? ErrorKind::resource : kind, cause_of(outcome, task)};
}

}  // namespace

void run_model_task(const ModelTask& task, const fs::path& folder, const OnTaskEvent& on_event) {
  const launch::SignalGuard guard;
  const FolderLock lock(folder);
  make_folder(folder / "logs");
  write_atomically(folder / "config.resolved.yaml", spec::dump_resolved(task.loaded));
  write_atomically(folder / spec::kTaskFile, spec::dump_task(task.task));
  const launch::Outcome outcome = launch::supervise(
      launch_spec(task, folder), [&](int /*rank*/, const events::Event& event) { on_event(event); },
      [] {}, steady_clock());
  if (outcome.exit_code != 0) throw failure_of(outcome, task);
}

}  // namespace trainctl::study
