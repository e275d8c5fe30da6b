#pragma once

#include "base/clock.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/supervise/job_ranks.hpp"
#include "launch/supervise/supervisor.hpp"

#include <optional>
#include <string>

namespace trainctl::launch {

/// The result of an attempt on a joined node.
struct NodeAttempt {
  std::optional<RunEnded> over;     // the coordinator has ended the run
  std::optional<std::string> lost;  // why the coordinator is lost; the ranks were killed
};

/// Runs one attempt of a job on a node other than node 0: starts the ranks of `spec.placement`,
/// forwards their events, heartbeats and ends to the coordinator, and follows its commands. Only
/// the coordinator decides about failures, hangs and stops, and says when the other ranks end.
/// Returns when no rank is left on this node. Stop signals are blocked as in supervise(); the first
/// is forwarded to the ranks and the coordinator, a second kills. Throws Error(resource) if a
/// worker cannot be started, and what `connect` throws; no rank is left then.
NodeAttempt supervise_node(const LaunchSpec& spec, NodeLink& link, const ConnectRank& connect,
                           const Clock& clock);

}  // namespace trainctl::launch
