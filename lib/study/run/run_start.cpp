#include "study/run/run_start.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/resume/superseded.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/gpu_probe.hpp"

#include <utility>

namespace trainctl::study {

int world_size_of(const RunRequest& request) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const int nodes = request.nodes ? request.nodes->nodes : 1;
  if (trainer.devices.value) return nodes * *trainer.devices.value;
  try {
    return nodes *
           choose_devices(trainer, read_machine(), [] { return launch::probe_gpus(); }).ranks;
  } catch (const Error&) {
    return 0;
  }
}

namespace {

// It begins with a checkpoint, or at the first step.
Start start_at(RunRequest request, const fs::path& folder, Origin origin) {
  request.task.resume = origin.checkpoint;
  request.task.accepts_data_change =
      !origin.checkpoint.empty() && request.resume &&
      request.resume->if_data_changed == IfDataChanged::restart_epoch;
  Continuation past =
      continue_run(request.loaded, folder, std::move(origin), world_size_of(request));
  return {std::move(request), std::move(past)};
}

}  // namespace

Origin first_origin(const RunRequest& request, const fs::path& folder) {
  if (!request.resume) return {};
  if (take_back(folder))
    log::get().warn("{}: a start before has put checkpoints aside and not gone on; they are back",
                    printable(folder.string()));
  if (const std::string note = restore_if_possible(folder); !note.empty())
    log::get().warn("{}", note);
  return choose_checkpoint(folder, *request.resume);
}

Start first_start(const RunRequest& request, const fs::path& folder, Origin origin) {
  if (!request.resume) return {request, {}};
  return start_at(request, folder, std::move(origin));
}

Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts) {
  Start start = start_at(request, folder, *restarts.next());
  start.past.notices.insert(start.past.notices.begin(), restarts.notice());
  return start;
}

}  // namespace trainctl::study
