#include "study/head_run.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "launch/gpu_probe.hpp"
#include "log/log.hpp"
#include "study/devices.hpp"
#include "study/folder_lock.hpp"
#include "study/node_launch.hpp"

namespace trainctl::study {
namespace {

// One folder on two machines may have the same path and not be the same.
std::string mark_of(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 1 << 16;
  return read_file(folder / FolderLock::kFileName, kMostBytes, ReadFailure::resource);
}

}  // namespace

HeadRun::HeadRun(const RunRequest& request, const fs::path& folder, launch::SignalGuard& guard)
    : plan_(*request.nodes) {
  const DeviceChoice devices = choose_devices(request.loaded.experiment.trainer, read_machine(),
                                              [] { return launch::probe_gpus(); });
  launch::Listener listener({.endpoint = plan_.endpoint,
                             .token = plan_.token,
                             .run_id = plan_.run_id,
                             .world_size = plan_.nodes * devices.ranks,
                             .nodes = plan_.nodes,
                             .any_address = request.any_address,
                             .give_up = [&guard] { return guard.has_heard(); }});
  const launch::Endpoint bound = listener.endpoint();
  launch::JobFacts facts{.nodes = plan_.nodes,
                         .ranks_per_node = devices.ranks,
                         .version = request.version,
                         .config = config_digest(request.loaded),
                         .accelerator = devices.gpu ? "gpu" : "cpu"};
  head_.emplace(std::move(listener), std::move(facts), beat_times());
  head_->set_folder(folder.string(), mark_of(folder));
  announce(plan_, bound, request.make_exchange);
  log::get().info(
      "node 0 of {} listens at {}; what ranks exchange is neither encrypted nor "
      "authenticated: the network has to be a private one",
      plan_.nodes, launch::to_text(bound));
}

HeadRun::~HeadRun() {
  try {
    report::Ending none;
    none.exit_code = static_cast<int>(ErrorKind::rank_failed);
    none.verdict = "failed";
    none.message = "the head left without a result";
    if (!has_ended_) end(none);
    withdraw(plan_);
  } catch (const std::exception& error) {
    log::get().warn("other nodes may not know that the run is over: {}", error.what());
  }
}

void HeadRun::end(const report::Ending& ending) {
  has_ended_ = true;
  head_->nodes().end({ending.exit_code, ending.verdict, ending.message}, steady_clock().now());
}

}  // namespace trainctl::study
