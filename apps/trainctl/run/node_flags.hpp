#pragma once

#include "cli/verb.hpp"
#include "study/nodes/node_plan.hpp"

namespace trainctl::app {

/// What the command line says of a run on several nodes.
struct NodeFlags {
  int nodes = 0;  // 0: as the file says
  int node = -1;  // -1: not said
  std::string endpoint;
  std::string id;
  std::string token_file;
  bool any_address = false;
};

/// Adds --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id, --rdzv-token-file and --i-know; with
/// underscores, too.
void add_node_flags(CLI::App& verb, NodeFlags& flags);

/// As overrides of the experiment file.
std::vector<std::string> overrides_of(const NodeFlags& flags);

/// Loads the request again, with further overrides.
using Reload = std::function<study::RunRequest(const std::vector<std::string>& overrides)>;

/// The request with its place among the nodes: by the flags, by trainer.num_nodes, or by the
/// launcher that started this process. As it was where it needs no others. Throws as
/// study::plan_node().
study::RunRequest placed(study::RunRequest request, const NodeFlags& flags, const Reload& reload,
                         Context& context);

/// Takes part in the run of node 0; prints how that ended.
int take_part(const study::RunRequest& request, const Context& context);

}  // namespace trainctl::app
