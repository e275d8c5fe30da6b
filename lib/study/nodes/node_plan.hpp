#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "launch/launchers/launcher_environment.hpp"
#include "launch/rendezvous/rendezvous.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace trainctl::study {

/// What command line and file say of a run on several nodes; what is not said is empty.
struct PlacementWish {
  std::optional<int> nodes;    // --nnodes, trainer.num_nodes
  std::optional<int> node;     // --node-rank
  std::string endpoint;        // --rdzv-endpoint: HOST:PORT, or HOST
  std::string id;              // --rdzv-id
  std::string token_file;      // --rdzv-token-file
  std::string token_digits;    // of the environment's TRAINCTL_RDZV_TOKEN
  fs::path out;                // --out: a folder that all nodes see
  std::optional<int> devices;  // trainer.devices; absent: auto
  double timeout_s = 300;      // for the head to say where it is
  launch::GiveUp give_up{};    // asked meanwhile
};

inline constexpr const char* kTokenVariable = "TRAINCTL_RDZV_TOKEN";

/// Where this supervisor stands and how it joins the others.
struct NodePlan {
  int nodes = 1;              // supervisors of the run; 1: it needs no others
  int node = 0;               // 0: the head
  int devices_per_node = 0;   // 0: as the config says
  launch::Endpoint endpoint;  // the head: listens there (port 0: any); the others join there
  launch::Token token{};
  std::string run_id;
  std::optional<fs::path> token_file_made;  // removed by withdraw()
  std::string said;                         // one line: under what it runs; empty: by itself

  // Of a task, which is a node of one rank:
  int local_rank = 0;
  int local_world_size = 1;
  std::optional<launch::TaskPlace> task;  // absent: no launcher
  std::optional<fs::path> meeting_file;   // where the head says endpoint and token; absent: nowhere
  bool token_is_given = false;            // by the environment or a file, so it is not passed on

  [[nodiscard]] bool is_head() const { return node == 0; }
  /// Some tasks of the launcher run on other hosts.
  [[nodiscard]] bool has_other_hosts() const {
    return task && task->local_world_size < task->world_size;
  }
  [[nodiscard]] bool is_alone() const { return nodes == 1; }
  /// One of several tasks of a launcher, each with one device.
  [[nodiscard]] bool is_one_rank() const { return devices_per_node == 1 && task.has_value(); }
};

/// torchrun's store: publishes `text` under `key` (publish), or waits for it (fetch). Throws Error.
struct Exchange {
  std::function<void(const std::string& key, const std::string& text)> publish;
  std::function<std::string(const std::string& key)> fetch;
};
/// Makes the exchange with the store of a task.
using MakeExchange = std::function<Exchange(const launch::TaskPlace& task)>;

/// What is known before anybody listens. On a node that is not the head it waits until the head has
/// announced itself, where that is needed. Throws Error(config) where the wishes contradict each
/// other, the task or the config; Error(hang) where the head says nothing in time.
NodePlan plan_node(const PlacementWish& wish, const std::optional<launch::TaskPlace>& task,
                   const MakeExchange& make_exchange);

/// Of the head, once it listens at `bound`: tells the others. Makes the meeting file or publishes
/// in torchrun's store; nothing where all of it is known to them. Throws Error(resource).
void announce(NodePlan& plan, const launch::Endpoint& bound, const MakeExchange& make_exchange);
/// Of the head, when all have joined or the run ends: removes the meeting file it has made.
void withdraw(NodePlan& plan);

/// Of another node whose join failed: whether the head has announced another endpoint or token
/// since, as after a file that a killed run has left; `plan` has it then.
bool look_again(NodePlan& plan, const MakeExchange& make_exchange = {});

struct JoinWish {
  launch::Claim claim;
  double timeout_s = 300;
  launch::GiveUp give_up{};
  MakeExchange make_exchange{};
};
/// launch::join() by a plan: looks again meanwhile, since what was found may be of a run before.
/// Throws as launch::join() does.
launch::Joined join_head(NodePlan& plan, const JoinWish& wish);

/// What the worker of a task is told beside the rest: its local rank, the tasks that share the
/// host, and variables such as CUDA_VISIBLE_DEVICES.
struct WorkerPlace {
  int local_rank = 0;
  int local_world_size = 1;
  std::map<std::string, std::string> environment;
};

/// GPUs that this process sees.
struct VisibleGpus {
  int count = 0;     // by the driver; 0: it computes on the CPU
  std::string list;  // CUDA_VISIBLE_DEVICES; empty: not set
};

/// Of the one worker of a task: its GPU is the only one it sees. Throws Error(resource) where the
/// host has fewer GPUs than tasks.
WorkerPlace worker_place(const NodePlan& plan, const VisibleGpus& gpus);

/// Cores of this task: those that it is bound to, or its share of those that the tasks of the host
/// have together. 0 without a launcher: the machine's. `online` are all of the host's.
int cores_of(const NodePlan& plan, int usable, int online);

}  // namespace trainctl::study
