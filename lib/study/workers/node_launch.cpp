#include "study/workers/node_launch.hpp"

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "launch/process/environment.hpp"
#include "launch/rendezvous/group_address.hpp"
#include "study/resume/config_changes.hpp"
#include "study/workers/worker_launch.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr const char* kBeat = "TRAINCTL_NODE_BEAT_S";
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kPerNode = "distributed.interface";  // the one value that nodes may not share

// Both engines open sockets of their own beside ours.
void name_interface(const std::string& address, launch::LaunchSpec& launch) {
  launch.environment[launch::kGroupAddress] = address;
  const std::string interface = launch::interface_of(address);
  std::map<std::string, std::string> variables;
  if (!interface.empty()) variables["NCCL_SOCKET_IFNAME"] = "=" + interface;
  if (address.find(':') != std::string::npos) variables["NCCL_SOCKET_FAMILY"] = "AF_INET6";
  for (const auto& [name, value] : variables) {
    launch.environment[name] = value;
    launch.keep_users.push_back(name);
  }
}

// Of a task of a launcher; else the machine's are all its own.
int cores_here(const RunRequest& request) {
  const auto online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return request.nodes ? cores_of(*request.nodes, usable_cores(), online) : 0;
}

void place(const NodeLaunch& wish, launch::LaunchSpec& launch) {
  const NodePlan& plan = *wish.request.nodes;
  const char* visible = std::getenv(kVisible);
  const WorkerPlace here =
      worker_place(plan, {wish.devices.gpu ? wish.devices.visible : 0, visible ? visible : ""});
  launch.place = {.nodes = plan.nodes,
                  .node = plan.node,
                  .local_rank = here.local_rank,
                  .local_world_size = here.local_world_size};
  if (!plan.is_one_rank()) launch.place.local_world_size = wish.devices.ranks;
  for (const auto& [name, value] : here.environment) launch.environment[name] = value;
  if (!wish.address.empty()) name_interface(wish.address, launch);
}

}  // namespace

launch::BeatTimes beat_times() {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 60;
  constexpr double kMissed = 3;
  launch::BeatTimes times;
  const char* text = std::getenv(kBeat);
  if (text == nullptr) return times;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, times.beat_s);
  ENSURE(config,
         error == std::errc() && stop == end && times.beat_s >= kLeast && times.beat_s <= kMost,
         "environment variable {} is '{}', expected seconds from {} to {}", kBeat, printable(text),
         kLeast, kMost);
  times.silence_s = kMissed * times.beat_s;
  return times;
}

std::string config_digest(const spec::Loaded& loaded) {
  std::string text;
  for (const auto& [path, value] : resolved_values(spec::dump_resolved(loaded))) {
    if (path != kPerNode) text += path + "=" + value + "\n";
  }
  return to_hex(sha256(text));
}

std::string first_difference(const std::string& theirs, const spec::Loaded& ours) {
  for (const ConfigChange& change : config_changes(theirs, ours)) {
    if (change.path != kPerNode)
      return fmt::format("{} is {} there and {} here", change.path, printable(change.before),
                         printable(change.now));
  }
  return "";
}

std::string group_address(const spec::Experiment& experiment, const std::string& local) {
  const std::string& wish = experiment.distributed.interface;
  return wish.empty() ? local : launch::interface_address(wish, local);
}

launch::LaunchSpec launch_spec(const NodeLaunch& wish) {
  const RunRequest& request = wish.request;
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  launch::LaunchSpec launch =
      worker_launch({.executable = request.executable,
                     .folder = wish.folder,
                     .trainer = trainer,
                     .machine = wish.machine,
                     .devices = wish.devices,
                     .cores = cores_here(request),
                     .collective_timeout_s = request.loaded.experiment.distributed.timeout_s});
  launch.argv.insert(launch.argv.end(), static_cast<std::size_t>(request.verbosity), "-v");
  launch.world_size = wish.devices.ranks * (request.nodes ? request.nodes->nodes : 1);
  if (request.nodes) place(wish, launch);
  const bool saves = request.task.kind == spec::TaskKind::train;
  if (!saves) launch.stop_grace_s = launch.grace_s;
  return launch;
}

}  // namespace trainctl::study
