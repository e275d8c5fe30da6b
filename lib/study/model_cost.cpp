#include "study/model_cost.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine.hpp"
#include "base/strings.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "spec/task.hpp"
#include "study/devices.hpp"
#include "study/folder_lock.hpp"
#include "study/scratch_folder.hpp"
#include "study/worker_launch.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <variant>

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

/// As a run would start rank 0, but alone.
launch::LaunchSpec launch_spec(const MeasureRequest& request, const fs::path& folder) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const Machine machine = read_machine();
  return worker_launch(
      {request.executable, folder, trainer, machine, devices_for(trainer, machine)});
}

/// Nobody claims it: nearly always the kernel, for want of memory.
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
std::string cause_of(const launch::Outcome& outcome) {
  const auto& failure = outcome.first_failure;
  if (!failure) return outcome.message;
  if (was_killed(outcome))
    return "the process that measures the model was ended by SIGKILL, perhaps for want of memory; "
           "lower loader.batch_size, or leave the model out with --no-model";
  if (failure->message.empty()) return outcome.message + log_of(*failure);
  return failure->message + log_of(*failure);
}

Error failure_of(const launch::Outcome& outcome) {
  const auto kind = static_cast<ErrorKind>(outcome.exit_code);
  const bool for_memory = kind == ErrorKind::rank_failed && was_killed(outcome);
  return {for_memory ? ErrorKind::resource : kind, cause_of(outcome)};
}

}  // namespace

events::Measured measure_model(const MeasureRequest& request) {
  const launch::SignalGuard guard;
  const ScratchFolder folder(temporary_folder());
  const FolderLock lock(folder.path());
  make_folder(folder.path() / "logs");
  write_atomically(folder.path() / "config.resolved.yaml", spec::dump_resolved(request.loaded));
  const auto kind = request.times_steps ? spec::TaskKind::probe : spec::TaskKind::measure;
  write_atomically(folder.path() / spec::kTaskFile, spec::dump_task({.kind = kind}));
  std::optional<events::Measured> measured;
  const auto on_event = [&](int /*rank*/, const events::Event& event) {
    if (const auto* found = std::get_if<events::Measured>(&event)) measured = *found;
  };
  const launch::Outcome outcome = launch::supervise(
      launch_spec(request, folder.path()), on_event, [] {}, steady_clock());
  if (outcome.exit_code != 0) throw failure_of(outcome);
  ENSURE(unexpected, measured.has_value(), "the worker ended without a measurement");
  return *measured;
}

}  // namespace trainctl::study
