#pragma once

#include "cli/verb.hpp"
#include "study/nodes/node_plan.hpp"

namespace trainctl::app {

/// The command line settings of a run on several nodes.
struct NodeFlags {
  int nodes = 0;  // 0: not given, the file decides
  int node = -1;  // -1: not given
  std::string endpoint;
  std::string id;
  std::string token_file;
  bool any_address = false;
};

/// Adds --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id, --rdzv-token-file and
/// --allow-public-address, also with underscores.
void add_node_flags(CLI::App& verb, NodeFlags& flags);

/// Returns the flags as overrides of the experiment file.
std::vector<std::string> overrides_of(const NodeFlags& flags);

/// Loads the request again with more overrides.
using Reload = std::function<study::RunRequest(const std::vector<std::string>& overrides)>;

/// Returns the request with its position among the nodes, from the flags, trainer.num_nodes, or the
/// launcher that started this process. A run on one node is returned unchanged. Throws the errors
/// of study::plan_node().
study::RunRequest placed(study::RunRequest request, const NodeFlags& flags, const Reload& reload,
                         Context& context);

/// Takes part in the run of node 0, prints how it ended, and returns the exit code.
int take_part(const study::RunRequest& request, const Context& context);

}  // namespace trainctl::app
