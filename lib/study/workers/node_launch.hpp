#pragma once

#include "base/machine/machine.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/supervise/supervisor.hpp"
#include "study/nodes/node_plan.hpp"
#include "study/run/run.hpp"
#include "study/workers/devices.hpp"

#include <string>

// What a supervisor needs to be one of several.

namespace trainctl::study {

/// 5 s between beats, 15 s of silence. TRAINCTL_NODE_BEAT_S, the same on every node, is another
/// time between beats, for tests; silence is three of them. Error(config) where that is garbage.
launch::BeatTimes beat_times();

/// Digest of the resolved config, without what may differ between nodes: distributed.interface.
std::string config_digest(const spec::Loaded& loaded);
/// "optimizer.lr is 0.1 there and 0.2 here", the first by path; empty where none is found. `theirs`
/// is a resolved config. Throws Error(checkpoint) where it cannot be read.
std::string first_difference(const std::string& theirs, const spec::Loaded& ours);

/// The address by which other nodes reach the ranks of this one: that of distributed.interface, or
/// `local`, of the connection between the supervisors. Throws Error(config).
std::string group_address(const spec::Experiment& experiment, const std::string& local);

/// The workers of one start, on whatever node: argv, environment, place and limits.
struct NodeLaunch {
  const RunRequest& request;
  const fs::path& folder;
  const Machine& machine;
  const DeviceChoice& devices;
  std::string address;  // group_address(); empty: there are no other nodes
};
launch::LaunchSpec launch_spec(const NodeLaunch& wish);

}  // namespace trainctl::study
