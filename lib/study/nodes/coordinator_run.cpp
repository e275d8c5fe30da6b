#include "study/nodes/coordinator_run.hpp"

#include "log/log.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"

#include <utility>

namespace trainctl::study {
namespace {

// This is longer than the pause between two connection attempts of a node, and short for a user who
// waits for the prompt.
constexpr double kLateJoinTimeoutS = 5;

}  // namespace

CoordinatorRun::CoordinatorRun(const RunRequest& request, const fs::path& folder,
                               launch::SignalGuard& guard)
    : plan_(*request.nodes), guard_(guard) {
  const DeviceChoice devices = choose_devices(request.loaded.experiment.trainer, read_machine(),
                                              [] { return launch::probe_gpus(); });
  launch::Listener listener({.endpoint = plan_.endpoint,
                             .token = plan_.token,
                             .run_id = plan_.run_id,
                             .world_size = plan_.nodes * devices.ranks,
                             .nodes = plan_.nodes,
                             .any_address = request.any_address,
                             .other_hosts = plan_.has_other_hosts(),
                             .give_up = [&guard] { return guard.received_stop(); }});
  const launch::Endpoint bound = listener.endpoint();
  launch::JobFacts facts{.nodes = plan_.nodes,
                         .ranks_per_node = devices.ranks,
                         .version = request.version,
                         .config = config_digest(request.loaded),
                         .accelerator = devices.gpu ? "gpu" : "cpu"};
  coordinator_.emplace(std::move(listener), std::move(facts), keepalive_times());
  constexpr std::uint64_t kMostBytes = 1 << 16;
  // A folder on two machines may have the same path without being the same folder, so the nodes
  // compare the content of the lock.
  coordinator_->set_folder(folder.string(), read_file(folder / FolderLock::kFileName, kMostBytes,
                                                      ReadFailure::resource));
  announce(plan_, bound, request.connect_store);
  log::get().info(
      "node 0 of {} listens at {}; the traffic between ranks is neither encrypted nor "
      "authenticated, so use a private network",
      plan_.nodes, launch::to_text(bound));
}

CoordinatorRun::~CoordinatorRun() {
  try {
    report::RunResult none;
    none.exit_code = static_cast<int>(ErrorKind::rank_failed);
    none.verdict = "failed";
    none.message = "node 0 exited without a result";
    if (!has_ended_) end(none);
    withdraw(plan_);  // if end() was interrupted
  } catch (const std::exception& error) {
    log::get().warn("cannot report the end of the run to the other nodes: {}", error.what());
  }
}

void CoordinatorRun::end(const report::RunResult& ending) {
  has_ended_ = true;
  // This precedes the report to the other nodes: once one of them exits, its launcher may kill this
  // process.
  if (!coordinator_->nodes().has_missing_nodes()) withdraw(plan_);
  coordinator_->end({ending.exit_code, ending.verdict, ending.message}, kLateJoinTimeoutS,
                    [this] { return guard_.received_stop(); });
  withdraw(plan_);
}

void report_failure(const RunRequest& request, const Error& error, launch::SignalGuard& guard) {
  NodePlan plan = *request.nodes;
  const auto give_up = [&guard] { return guard.received_stop(); };
  const bool is_announced = plan.rendezvous_file || (plan.task && plan.task->agent_store);
  if (is_announced) plan.endpoint.port = 0;  // the intended port may have caused the failure
  try {
    launch::Listener listener({.endpoint = plan.endpoint,
                               .token = plan.token,
                               .run_id = plan.run_id,
                               .world_size = plan.nodes,
                               .nodes = plan.nodes,
                               .any_address = request.any_address,
                               .other_hosts = plan.has_other_hosts(),
                               .port_wait_s = 0,
                               .give_up = give_up});
    const launch::Endpoint bound = listener.endpoint();
    launch::Coordinator coordinator(std::move(listener), {.nodes = plan.nodes}, keepalive_times());
    announce(plan, bound, request.connect_store);
    coordinator.end({error.exit_code(), "failed", error.what()}, kLateJoinTimeoutS, give_up);
  } catch (const Error& obstacle) {
    log::get().debug("cannot report the failure to the other nodes: {}", obstacle.message());
  }
  withdraw(plan);
}

}  // namespace trainctl::study
