#pragma once

#include "base/clock.hpp"
#include "launch/nodes/node_link.hpp"
#include "launch/supervise/job_ranks.hpp"
#include "launch/supervise/supervisor.hpp"

#include <optional>
#include <string>

namespace trainctl::launch {

/// What became of an attempt on a joined node.
struct NodeAttempt {
  std::optional<RunOver> over;      // the head has said that the run is over
  std::optional<std::string> lost;  // why the head is lost; the ranks were killed
};

/// One attempt of a job on a node that is not the head: starts the ranks of `spec.place`, tells the
/// head of their events, stamps and ends, and does what the head says. The head alone judges:
/// failures, hangs and stop signals go to it, and it says when the others end. Returns when no rank
/// of this node is left. Stop signals are blocked as by supervise(); the first reaches the ranks
/// and the head, a second kills. Throws Error(resource) where a worker could not be started, and
/// what `connect` throws; then none is left.
NodeAttempt supervise_node(const LaunchSpec& spec, NodeLink& link, const ConnectRank& connect,
                           const Clock& clock);

}  // namespace trainctl::launch
