#pragma once

#include "base/files.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/rendezvous/rendezvous.hpp"
#include "study/folder/folder_lock.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>

// Node 0 announces its endpoint to the other nodes in a file in a folder that all of them can
// access.

namespace trainctl::study {

/// The rendezvous data: one line of JSON in a file that only its owner can read.
struct RendezvousInfo {
  std::string run_id;
  launch::Endpoint endpoint;
  std::optional<launch::Token> token;  // absent: the other nodes already have it
  LockHolder coordinator;              // the process that wrote the file
};

/// Returns "OUT/.rendezvous-slurm-7.0.0"; an id that is long or has other characters is replaced by
/// a digest.
fs::path rendezvous_path(const fs::path& out, const std::string& run_id);

/// Returns the data as one line of JSON.
std::string rendezvous_text(const RendezvousInfo& rendezvous);
/// Parses the text from torchrun's store or a file. Throws Error(config) that names `where` but not
/// the token.
RendezvousInfo parse_rendezvous(const std::string& text, const std::string& where);

/// Writes the file atomically, and replaces one whose holder is not known to be alive. Throws
/// Error(resource) that names the holder when another coordinator is alive, or when the folder is
/// not writable.
void write_rendezvous(const fs::path& path, const RendezvousInfo& rendezvous);

/// Reads the file; nullopt if it does not exist or its coordinator has certainly exited. Throws
/// Error(config) when other users could have read or written it.
std::optional<RendezvousInfo> read_rendezvous(const fs::path& path);

/// Removes the file, unless another coordinator has replaced it.
void remove_rendezvous(const fs::path& path);

/// The placement options of the command line and the experiment file; unset options are empty.
struct PlacementRequest {
  std::optional<int> nodes;    // --nnodes, trainer.num_nodes
  std::optional<int> node;     // --node-rank
  std::string endpoint;        // --rdzv-endpoint: HOST:PORT, or HOST
  std::string id;              // --rdzv-id
  std::string token_file;      // --rdzv-token-file
  std::string token_digits;    // environment variable TRAINCTL_RDZV_TOKEN
  fs::path out;                // --out: a folder that all nodes can access
  std::optional<int> devices;  // trainer.devices; absent: auto
  double timeout_s = 300;      // for node 0 to announce its endpoint
  launch::GiveUp give_up{};    // polled while waiting
};

inline constexpr const char* kTokenVariable = "TRAINCTL_RDZV_TOKEN";

/// The rank of this supervisor among the nodes, and how it joins the others.
struct NodePlan {
  int nodes = 1;              // number of supervisors in the run; 1: no rendezvous is needed
  int node = 0;               // node rank; 0: coordinator
  int devices_per_node = 0;   // 0: as in the config
  launch::Endpoint endpoint;  // node 0 listens there (port 0: any free port), others connect
  launch::Token token{};
  std::string run_id;
  std::optional<fs::path> token_file_made;  // removed by withdraw()
  std::string description;                  // one line that names the launcher; empty: none

  // For a launcher's task, which is a node with one rank:
  int local_rank = 0;
  int local_world_size = 1;
  std::optional<launch::LauncherTask> task;  // absent: no launcher
  std::optional<fs::path>
      rendezvous_file;          // where node 0 writes endpoint and token; absent: no file
  bool token_is_given = false;  // set by the environment or a file, so it is not announced

  [[nodiscard]] bool is_coordinator() const { return node == 0; }
  /// Returns whether some tasks of the launcher run on other hosts.
  [[nodiscard]] bool has_other_hosts() const {
    return task && task->local_world_size < task->world_size;
  }
  [[nodiscard]] bool is_alone() const { return nodes == 1; }
  /// Returns whether this is one of several tasks of a launcher, each with one device.
  [[nodiscard]] bool is_one_rank() const { return devices_per_node == 1 && task.has_value(); }
};

/// torchrun's store: `publish` sets `text` for `key`, `fetch` waits for the value of a key. Both
/// throw Error.
struct RendezvousStore {
  std::function<void(const std::string& key, const std::string& text)> publish;
  std::function<std::string(const std::string& key)> fetch;
};
/// Connects to the store of a task.
using ConnectStore = std::function<RendezvousStore(const launch::LauncherTask& task)>;

/// Returns the plan that is known before node 0 listens. On other nodes it waits until node 0 has
/// announced itself, if that is needed. Throws Error(config) when the options contradict each
/// other, the launcher's task or the config; Error(hang) when node 0 announces nothing in time.
NodePlan plan_node(const PlacementRequest& request, const std::optional<launch::LauncherTask>& task,
                   const ConnectStore& connect_store);

/// Called on node 0 after it listens at `bound`: announces the endpoint through the rendezvous file
/// or torchrun's store, or not at all if the other nodes know everything. Throws Error(resource).
void announce(NodePlan& plan, const launch::Endpoint& bound, const ConnectStore& connect_store);
/// Called on node 0 when all nodes have joined or the run ends: removes the rendezvous file that
/// announce() created.
void withdraw(NodePlan& plan);

/// Called on another node whose join failed: returns whether node 0 has since announced another
/// endpoint or token, for example if a killed run left an old file, and updates `plan`.
bool refresh_rendezvous(NodePlan& plan, const ConnectStore& connect_store = {});

/// How a node joins the run; join_coordinator() polls `give_up`.
struct JoinRequest {
  launch::Claim claim;
  double timeout_s = 300;
  launch::GiveUp give_up{};
  ConnectStore connect_store{};
};
/// Calls launch::join() by a plan, and reads the announcement again in between, because the first
/// one may be from an earlier run. Throws as launch::join() does.
launch::JoinedConnection join_coordinator(NodePlan& plan, const JoinRequest& request);

/// Additional settings of a launcher task's worker: its local rank, the tasks on the same host, and
/// variables such as CUDA_VISIBLE_DEVICES.
struct WorkerPlacement {
  int local_rank = 0;
  int local_world_size = 1;
  std::map<std::string, std::string> environment;
};

/// The GPUs that this process can use.
struct VisibleGpus {
  int count = 0;     // according to the driver; 0: the run uses the CPU
  std::string list;  // CUDA_VISIBLE_DEVICES; empty: not set
};

/// Returns the settings of a task's only worker, which sees only its own GPU. Throws
/// Error(resource) when the host has fewer GPUs than tasks.
WorkerPlacement worker_placement(const NodePlan& plan, const VisibleGpus& gpus);

/// Returns the number of cores of this task: those that it is bound to, or its share of the cores
/// that the host's tasks have together. Returns 0 without a launcher: all cores of the machine.
/// `online` is the number of cores of the host.
int cores_of(const NodePlan& plan, int usable, int online);

}  // namespace trainctl::study
