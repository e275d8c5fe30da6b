#include "study/run_start.hpp"

#include "base/strings.hpp"
#include "log/log.hpp"
#include "study/superseded.hpp"

#include <utility>

namespace trainctl::study {
namespace {

// It begins with a checkpoint, or at the first step.
Start start_at(RunRequest request, const fs::path& folder, Origin origin) {
  request.task.resume = origin.checkpoint;
  request.task.accepts_data_change =
      !origin.checkpoint.empty() && request.resume &&
      request.resume->if_data_changed == IfDataChanged::restart_epoch;
  Continuation past = continue_run(request.loaded, folder, std::move(origin));
  return {std::move(request), std::move(past)};
}

}  // namespace

Start first_start(const RunRequest& request, const fs::path& folder) {
  if (!request.resume) return {request, {}};
  if (take_back(folder))
    log::get().warn("{}: a start before has put checkpoints aside and not gone on; they are back",
                    printable(folder.string()));
  return start_at(request, folder, choose_checkpoint(folder, *request.resume));
}

Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts) {
  Start start = start_at(request, folder, *restarts.next());
  start.past.notices.insert(start.past.notices.begin(), restarts.notice());
  return start;
}

}  // namespace trainctl::study
