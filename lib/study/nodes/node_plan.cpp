#include "study/nodes/node_plan.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "study/nodes/rendezvous_file.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

using launch::Launcher;
using launch::TaskPlace;
using Task = std::optional<TaskPlace>;

constexpr auto kRetryPause = std::chrono::milliseconds(100);
constexpr const char* kLoopback = "127.0.0.1";

std::string with_ignored(std::string text, const TaskPlace& task) {
  if (task.ignored.empty()) return text;
  if (!text.empty()) text += "; ";
  return text + "ignored: " + join(task.ignored, "; ");
}

void check_task_options(const PlacementRequest& wish, const TaskPlace& task) {
  const char* launcher = name_of(task.launcher);
  const int hosts = std::max(1, task.world_size / task.local_world_size);
  ENSURE(config, !wish.nodes || *wish.nodes == task.world_size || *wish.nodes == hosts,
         "--nnodes (trainer.num_nodes) is {}, but {} has started {} task(s) on {} host(s)\nhint: "
         "remove it",
         wish.nodes.value_or(0), launcher, task.world_size, hosts);
  ENSURE(config, !wish.node || *wish.node == task.rank,
         "--node-rank is {}, but this is task {} of {}\nhint: remove it", wish.node.value_or(0),
         task.rank, launcher);
  const bool fits = task.whole_node || !wish.devices || *wish.devices == 1 ||
                    *wish.devices == task.local_world_size;
  ENSURE(config, fits,
         "trainer.devices is {}, but {} has started {} tasks on this host, one for each device\n"
         "hint: start as many tasks as devices, or one a host",
         wish.devices.value_or(0), launcher, task.local_world_size);
}

NodePlan plan_of_task(const PlacementRequest& wish, const TaskPlace& task) {
  check_task_options(wish, task);
  NodePlan plan;
  plan.task = task;
  plan.nodes = task.world_size;
  plan.node = task.rank;
  plan.devices_per_node = task.whole_node ? 0 : 1;
  plan.local_rank = task.local_rank;
  plan.local_world_size = task.local_world_size;
  plan.said = with_ignored(fmt::format("{} {} of {} under {}", task.whole_node ? "node" : "rank",
                                       task.rank, task.world_size, name_of(task.launcher)),
                           task);
  return plan;
}

NodePlan plan_from_options(const PlacementRequest& wish) {
  NodePlan plan;
  plan.nodes = wish.nodes.value_or(1);
  ENSURE(config, plan.nodes >= 1, "--nnodes is {}, expected 1 or more", plan.nodes);
  if (plan.nodes == 1) {
    ENSURE(config, wish.node.value_or(0) == 0,
           "--node-rank is {}, but there is one node\n"
           "hint: add --nnodes",
           wish.node.value_or(0));
    return plan;
  }
  ENSURE(config, wish.node.has_value(),
         "the run has {} nodes\nhint: give the rank of this node with --node-rank 0 to {}",
         plan.nodes, plan.nodes - 1);
  plan.node = *wish.node;
  ENSURE(config, plan.node >= 0 && plan.node < plan.nodes,
         "--node-rank is {}, expected 0 to {}, since the run has {} nodes", plan.node,
         plan.nodes - 1, plan.nodes);
  ENSURE(config, !wish.endpoint.empty(),
         "the run has {} nodes\nhint: give the master address with --rdzv-endpoint HOST:PORT",
         plan.nodes);
  plan.said = fmt::format("node {} of {}", plan.node, plan.nodes);
  return plan;
}

NodePlan placement(const PlacementRequest& wish, const Task& task) {
  if (!task) return plan_from_options(wish);
  // A complete placement on the command line takes precedence over any launcher.
  const bool is_typed = wish.nodes && wish.node && !wish.endpoint.empty();
  if (task->launcher == Launcher::none || is_typed) {
    NodePlan plan = plan_from_options(wish);
    TaskPlace ignored_task = *task;
    if (ignored_task.launcher != Launcher::none)
      ignored_task.ignored = {fmt::format("task {} of {} of {}, since --node-rank is given", ignored_task.rank,
                                  ignored_task.world_size, name_of(ignored_task.launcher))};
    plan.said = with_ignored(plan.said, ignored_task);
    return plan;
  }
  return plan_of_task(wish, *task);
}

void take_token(const PlacementRequest& wish, NodePlan& plan) {
  ENSURE(config, wish.token_digits.empty() || wish.token_file.empty(),
         "both {} and --rdzv-token-file are given\nhint: leave one out", kTokenVariable);
  plan.token_is_given = true;
  if (!wish.token_digits.empty()) {
    plan.token = launch::parse_token(wish.token_digits, kTokenVariable);
  } else if (!wish.token_file.empty()) {
    plan.token = launch::read_token_file(wish.token_file);
  } else {
    plan.token_is_given = false;
    if (plan.is_coordinator()) plan.token = launch::make_token();
  }
}

/// Sets the endpoint of node 0 as the other nodes know it, with port 0 if node 0 may choose and
/// announce the port. Returns false if not even the host is known.
bool take_endpoint(const PlacementRequest& wish, NodePlan& plan) {
  if (!wish.endpoint.empty()) {
    plan.endpoint = launch::parse_endpoint(wish.endpoint);
    return plan.endpoint.port != 0;
  }
  const TaskPlace& task = *plan.task;
  plan.endpoint = {task.master_addr, 0};
  if (task.agent_store) {  // torchrun itself uses MASTER_PORT
    if (task.local_world_size == task.world_size) plan.endpoint.host = kLoopback;
    return false;
  }
  if (task.master_addr.empty()) {
    plan.endpoint.host = read_machine().host;
    return false;
  }
  if (task.launcher == Launcher::mpi && !task.master_port) return false;
  plan.endpoint.port = task.master_port.value_or(launch::kRendezvousPort);
  // The name of pod 0 may belong to a service, or resolve to "localhost".
  if (task.launcher == Launcher::kubernetes && plan.is_coordinator())
    plan.endpoint.host = read_machine().host;
  return true;
}

// Nodes may use different names for one endpoint. The token of a run and its endpoint identify the
// run by themselves; a rendezvous file needs an id for its name.
std::string id_of_endpoint(const NodePlan& plan) {
  if (plan.token_is_given && plan.endpoint.port != 0) return "by-token";
  std::string id = launch::to_text(plan.endpoint);
  std::ranges::transform(id, id.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return id;
}

std::string id_of(const PlacementRequest& wish, const NodePlan& plan) {
  constexpr std::size_t kMostBytes = 200;  // the handshake allows 256
  std::string id = wish.id;
  if (id.empty() && plan.task) id = plan.task->job_id;
  const bool has_address = plan.task && !plan.task->master_addr.empty() && plan.task->master_port;
  if (id.empty() && plan.task && plan.task->launcher == Launcher::kubernetes) id = "kubernetes";
  if (id.empty() && has_address)
    id = fmt::format("{}-{}", plan.task->master_addr, *plan.task->master_port);
  if (id.empty() && !wish.endpoint.empty()) id = id_of_endpoint(plan);
  ENSURE(
      config, !id.empty(),
      "{} does not identify this run\nhint: give all of its tasks the same --rdzv-id",
      plan.task ? name_of(plan.task->launcher) : "the command line");
  ENSURE(config, id.size() <= kMostBytes, "--rdzv-id must have at most {} characters, got {}",
         kMostBytes, id.size());
  return id;
}

bool uses_agent_store(const NodePlan& plan) { return plan.task && plan.task->agent_store; }

/// Returns the key in torchrun's store, which survives restarts of its tasks.
std::string key_of(const NodePlan& plan) {
  return fmt::format("trainctl/{}/{}", plan.run_id, plan.nodes);
}

void take_meeting(const Meeting& meeting, NodePlan& plan) {
  plan.endpoint = meeting.endpoint;
  if (plan.token_is_given) return;
  ENSURE(config, meeting.token.has_value(),
         "node 0 was given a token, but this node was not\nhint: give all nodes the same {} or the "
         "same --rdzv-token-file",
         kTokenVariable);
  plan.token = *meeting.token;
}

std::optional<Meeting> found_meeting(const NodePlan& plan) {
  auto meeting = read_meeting(*plan.meeting_file);
  return meeting && meeting->run_id == plan.run_id ? meeting : std::nullopt;
}

Meeting fetched_meeting(const NodePlan& plan, const MakeExchange& make_exchange) {
  const std::string text = make_exchange(*plan.task).fetch(key_of(plan));
  return parse_meeting(text, "torchrun's store");
}

void wait_for_file(const PlacementRequest& wish, NodePlan& plan) {
  const Clock& clock = steady_clock();
  const double deadline = clock.now() + wish.timeout_s;
  for (;;) {
    if (const auto meeting = found_meeting(plan)) return take_meeting(*meeting, plan);
    ENSURE(interrupted, !wish.give_up || !wish.give_up(), "stopped while waiting for node 0");
    const char* hint = plan.task ? "" : ", and give the same endpoint text, or --rdzv-id, to all";
    ENSURE(hang, clock.now() < deadline,
           "node 0 has not announced its address within {}: {} does not exist\nhint: check that it "
           "runs and that --out is a folder that all nodes share{}",
           human_duration(wish.timeout_s), plan.meeting_file->string(), hint);
    std::this_thread::sleep_for(kRetryPause);
  }
}

/// Returns whether a failed join may succeed later: node 0 is not listening yet, or the
/// announcement is that of an earlier run whose file still exists.
bool may_succeed_later(const Error& error, const NodePlan& plan) {
  if (error.kind() == ErrorKind::hang || error.kind() == ErrorKind::rank_failed) return true;
  if (error.kind() != ErrorKind::config || !plan.meeting_file) return false;
  const auto meeting = found_meeting(plan);
  return !meeting || !surely_lives(meeting->head, this_process());
}

}  // namespace

NodePlan plan_node(const PlacementRequest& wish, const Task& task,
                   const MakeExchange& make_exchange) {
  NodePlan plan = placement(wish, task);
  if (plan.is_alone()) return plan;
  take_token(wish, plan);
  const bool knows_endpoint = take_endpoint(wish, plan);
  plan.run_id = id_of(wish, plan);
  if (knows_endpoint && plan.token_is_given) return plan;
  if (uses_agent_store(plan)) {
    if (!plan.is_coordinator()) take_meeting(fetched_meeting(plan, make_exchange), plan);
    return plan;
  }
  plan.meeting_file = meeting_path(wish.out, plan.run_id);
  if (!plan.is_coordinator()) wait_for_file(wish, plan);
  return plan;
}

void announce(NodePlan& plan, const launch::Endpoint& bound, const MakeExchange& make_exchange) {
  if (plan.is_alone() || !plan.is_coordinator()) return;
  const auto token = plan.token_is_given ? std::nullopt : std::optional(plan.token);
  const Meeting meeting{plan.run_id, bound, token, this_process()};
  if (plan.meeting_file) {
    write_meeting(*plan.meeting_file, meeting);
    plan.token_file_made = plan.meeting_file;
  } else if (uses_agent_store(plan)) {
    make_exchange(*plan.task).publish(key_of(plan), meeting_text(meeting));
  }
}

void withdraw(NodePlan& plan) {
  if (!plan.token_file_made) return;
  remove_meeting(*plan.token_file_made);
  plan.token_file_made.reset();
}

bool look_again(NodePlan& plan, const MakeExchange& make_exchange) {
  if (plan.is_alone() || plan.is_coordinator()) return false;
  std::optional<Meeting> meeting;
  if (plan.meeting_file) {
    meeting = found_meeting(plan);
  } else if (uses_agent_store(plan) && make_exchange) {
    meeting = fetched_meeting(plan, make_exchange);
  }
  if (!meeting) return false;
  const auto before = std::pair(launch::to_text(plan.endpoint), plan.token);
  take_meeting(*meeting, plan);
  return before != std::pair(launch::to_text(plan.endpoint), plan.token);
}

launch::Joined join_head(NodePlan& plan, const JoinWish& wish) {
  constexpr double kSlice = 5;
  constexpr double kOtherCoordinatorS = 20;  // as in launch::join()
  const Clock& clock = steady_clock();
  const double deadline = clock.now() + wish.timeout_s;
  const bool is_announced = plan.meeting_file || uses_agent_store(plan);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double gone_at = kNever;  // when node 0 closed the connection
  for (;;) {
    const double left = std::max(deadline - clock.now(), 0.1);
    try {
      return launch::join({.endpoint = plan.endpoint,
                           .token = plan.token,
                           .run_id = plan.run_id,
                           .claim = wish.claim,
                           .timeout_s = is_announced ? std::min(left, kSlice) : left,
                           .give_up = wish.give_up});
    } catch (const Error& error) {
      if (!is_announced || clock.now() >= deadline || !may_succeed_later(error, plan)) throw;
      if (error.kind() == ErrorKind::rank_failed) gone_at = std::min(gone_at, clock.now());
      if (clock.now() - gone_at > kOtherCoordinatorS) throw;
    }
    if (look_again(plan, wish.make_exchange)) {
      gone_at = kNever;
    } else {
      std::this_thread::sleep_for(kRetryPause);
    }
  }
}

WorkerPlace worker_place(const NodePlan& plan, const VisibleGpus& gpus) {
  WorkerPlace place{plan.local_rank, plan.local_world_size, {}};
  if (gpus.count == 0) return place;
  place.local_rank = 0;
  // Slurm, or a wrapper script of the task, may limit each task to its own GPU.
  const bool is_torchrun = plan.task && plan.task->launcher == Launcher::torchrun;
  const bool shows_own = gpus.count == 1 && !gpus.list.empty() && !is_torchrun;
  if (shows_own || plan.local_world_size == 1) return place;
  ENSURE(resource, plan.local_rank < gpus.count,
         "{} has started {} tasks on this host, which has {} GPU(s)\nhint: start as many tasks as "
         "GPUs, or set trainer.accelerator=cpu",
         plan.task ? name_of(plan.task->launcher) : "a launcher", plan.local_world_size,
         gpus.count);
  const auto own = static_cast<std::size_t>(plan.local_rank);
  const std::vector<std::string> names = split(gpus.list, ',');
  const bool is_listed = !gpus.list.empty() && own < names.size();
  place.environment["CUDA_VISIBLE_DEVICES"] = is_listed ? names[own] : std::to_string(own);
  return place;
}

int cores_of(const NodePlan& plan, int usable, int online) {
  if (!plan.task) return 0;
  const int together =
      plan.task->may_bind ? std::max(plan.task->cores_here.value_or(online), usable) : usable;
  return std::max(1, std::min(usable, together / plan.local_world_size));
}

}  // namespace trainctl::study
