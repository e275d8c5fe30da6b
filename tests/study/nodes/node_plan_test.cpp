#include "study/nodes/node_plan.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <map>
#include <string>
#include <thread>

using namespace trainctl;
using namespace trainctl::study;
using Catch::Matchers::Contains;
using launch::Launcher;
using launch::LauncherTask;

namespace {

constexpr const char* kDigits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

LauncherTask task_of(Launcher launcher, int rank) {
  LauncherTask task;
  task.launcher = launcher;
  task.rank = task.local_rank = rank;
  task.world_size = task.local_world_size = 2;
  task.master_addr = "127.0.0.1";
  task.master_port = 12345;
  task.job_id = "job.0";
  return task;
}

LauncherTask torchrun_task(int rank) {
  LauncherTask task = task_of(Launcher::torchrun, rank);
  task.agent_store = true;
  return task;
}

/// Replaces torchrun's store.
struct FakeStore {
  std::map<std::string, std::string> texts;

  ConnectStore maker() {
    return [this](const LauncherTask&) {
      return RendezvousStore{
          [this](const std::string& key, const std::string& text) { texts[key] = text; },
          [this](const std::string& key) { return texts.at(key); }};
    };
  }
};

ConnectStore no_store() {
  return
      [](const LauncherTask&) -> RendezvousStore { throw std::logic_error("nobody asked for it"); };
}

PlacementRequest request_in(const TempFolder& folder) {
  PlacementRequest request;
  request.out = folder.path();
  request.timeout_s = 60;
  return request;
}

PlacementRequest by_hand(const TempFolder& folder, int node) {
  PlacementRequest request = request_in(folder);
  request.nodes = 2;
  request.node = node;
  request.endpoint = "127.0.0.1:4711";
  return request;
}

std::string error_of(const PlacementRequest& request, const std::optional<LauncherTask>& task) {
  try {
    plan_node(request, task, no_store());
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("NodePlan: without a launcher and options a run has one node and no description") {
  const TempFolder folder;
  const NodePlan plan = plan_node(request_in(folder), std::nullopt, no_store());
  CHECK(plan.is_alone());
  CHECK(plan.is_coordinator());
  CHECK(plan.devices_per_node == 0);
  CHECK(plan.description.empty());
  CHECK(cores_of(plan, 8, 64) == 0);
}

TEST_CASE("NodePlan: an ignored allocation does not change the run and is reported") {
  const TempFolder folder;
  LauncherTask task;
  task.ignored = {"the allocation of Slurm job 7"};
  const NodePlan plan = plan_node(request_in(folder), task, no_store());
  CHECK(plan.is_alone());
  CHECK_FALSE(plan.task);
  CHECK(plan.description == "ignored: the allocation of Slurm job 7");
}

TEST_CASE(
    "NodePlan: nodes started by hand need a rank and an endpoint and use the token of the "
    "environment") {
  const TempFolder folder;
  PlacementRequest request = by_hand(folder, 1);
  request.token_digits = kDigits;
  const NodePlan plan = plan_node(request, std::nullopt, no_store());
  CHECK(plan.nodes == 2);
  CHECK(plan.node == 1);
  CHECK(launch::to_text(plan.endpoint) == "127.0.0.1:4711");
  CHECK(launch::token_digits(plan.token) == kDigits);
  CHECK_FALSE(plan.rendezvous_file);
  request.endpoint = "localhost:4711";
  CHECK(plan_node(request, std::nullopt, no_store()).run_id == plan.run_id);
  CHECK(plan.description == "node 1 of 2");
}

TEST_CASE("NodePlan: without a token, nodes must use the same endpoint, in any spelling") {
  const TempFolder folder;
  PlacementRequest request = by_hand(folder, 0);
  request.endpoint = "Node1";
  const auto file = plan_node(request, std::nullopt, no_store()).rendezvous_file;
  request.endpoint = "node1:29400";
  CHECK(plan_node(request, std::nullopt, no_store()).rendezvous_file == file);
  request = by_hand(folder, 1);
  request.timeout_s = 0;
  CHECK_THAT(error_of(request, std::nullopt), Contains("the same --rdzv-endpoint or --rdzv-id"));
}

TEST_CASE(
    "NodePlan: the coordinator announces endpoint and token and removes the file at the end") {
  const TempFolder folder;
  NodePlan coordinator = plan_node(by_hand(folder, 0), std::nullopt, no_store());
  REQUIRE(coordinator.rendezvous_file);
  CHECK_FALSE(fs::exists(*coordinator.rendezvous_file));
  NodePlan other;
  std::thread joiner([&] { other = plan_node(by_hand(folder, 1), std::nullopt, no_store()); });
  announce(coordinator, {"127.0.0.1", 5000}, no_store());
  joiner.join();
  CHECK(coordinator.token_file_made == coordinator.rendezvous_file);
  CHECK(launch::to_text(other.endpoint) == "127.0.0.1:5000");
  CHECK(other.token == coordinator.token);
  CHECK_FALSE(refresh_rendezvous(other));
  withdraw(coordinator);
  CHECK_FALSE(coordinator.token_file_made);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("NodePlan: a node that joined an earlier coordinator finds the new announcement") {
  const TempFolder folder;
  NodePlan coordinator = plan_node(by_hand(folder, 0), std::nullopt, no_store());
  announce(coordinator, {"127.0.0.1", 5000}, no_store());
  NodePlan other = plan_node(by_hand(folder, 1), std::nullopt, no_store());
  NodePlan next = plan_node(by_hand(folder, 0), std::nullopt, no_store());
  announce(next, {"127.0.0.1", 5001}, no_store());
  CHECK(refresh_rendezvous(other));
  CHECK(other.endpoint.port == 5001);
  CHECK(other.token == next.token);
  CHECK_FALSE(refresh_rendezvous(other));
}

TEST_CASE(
    "NodePlan: a node waits for the coordinator until the timeout, and the error names the file") {
  const TempFolder folder;
  PlacementRequest request = by_hand(folder, 1);
  request.timeout_s = 0.2;
  CHECK_THAT(error_of(request, std::nullopt),
             Contains("8 node 0 has not announced") && Contains(".rendezvous-127.0.0.1_4711"));
  request.timeout_s = 60;
  request.give_up = [] { return true; };
  CHECK_THAT(error_of(request, std::nullopt), Contains("130 "));
}

TEST_CASE("NodePlan: with torchrun, endpoint and token are exchanged through its store") {
  const TempFolder folder;
  FakeStore store;
  NodePlan coordinator = plan_node(request_in(folder), torchrun_task(0), store.maker());
  CHECK(launch::to_text(coordinator.endpoint) == "127.0.0.1:0");
  CHECK(coordinator.description == "rank 0 of 2 under torchrun");
  CHECK(coordinator.devices_per_node == 1);
  announce(coordinator, {"127.0.0.1", 5000}, store.maker());
  CHECK(store.texts.size() == 1);
  CHECK(store.texts.contains("trainctl/job.0/2"));
  const NodePlan other = plan_node(request_in(folder), torchrun_task(1), store.maker());
  CHECK(other.endpoint.port == 5000);
  CHECK(other.token == coordinator.token);
  CHECK_FALSE(other.is_coordinator());
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("NodePlan: a token that all tasks have is not sent through torchrun's store") {
  const TempFolder folder;
  FakeStore store;
  PlacementRequest request = request_in(folder);
  request.token_digits = kDigits;
  NodePlan coordinator = plan_node(request, torchrun_task(0), store.maker());
  announce(coordinator, {"127.0.0.1", 5000}, store.maker());
  CHECK(store.texts.begin()->second.find(kDigits) == std::string::npos);
  const NodePlan other = plan_node(request, torchrun_task(1), store.maker());
  CHECK(launch::token_digits(other.token) == kDigits);
  CHECK(other.endpoint.port == 5000);
}

TEST_CASE("NodePlan: a single torchrun rank runs alone on one device") {
  const TempFolder folder;
  LauncherTask task = torchrun_task(0);
  task.world_size = task.local_world_size = 1;
  const NodePlan plan = plan_node(request_in(folder), task, no_store());
  CHECK(plan.is_alone());
  CHECK(plan.devices_per_node == 1);
}

TEST_CASE("NodePlan: tasks without a port or an address use the rendezvous file") {
  const TempFolder folder;
  LauncherTask task = task_of(Launcher::mpi, 0);
  task.master_port.reset();
  const NodePlan on_one_host = plan_node(request_in(folder), task, no_store());
  CHECK(launch::to_text(on_one_host.endpoint) == "127.0.0.1:0");
  REQUIRE(on_one_host.rendezvous_file);
  task.master_addr.clear();
  task.local_world_size = 1;
  PlacementRequest request = request_in(folder);
  request.token_digits = kDigits;
  const NodePlan on_two = plan_node(request, task, no_store());
  CHECK(on_two.endpoint.host == this_process().host);
  CHECK(on_two.rendezvous_file);
  CHECK(on_two.token_is_given);
}

TEST_CASE("NodePlan: tasks that cannot be distinguished from those of other runs need an id") {
  const TempFolder folder;
  LauncherTask task = task_of(Launcher::mpi, 0);
  task.job_id.clear();
  task.master_port.reset();
  CHECK_THAT(error_of(request_in(folder), task),
             Contains("2 cannot derive an id of the run from MPI") && Contains("--rdzv-id"));
  PlacementRequest request = request_in(folder);
  request.id = "mine";
  CHECK(plan_node(request, task, no_store()).run_id == "mine");
  request.id = std::string(201, 'x');
  CHECK_THAT(error_of(request, task), Contains("got 201"));
}

TEST_CASE(
    "NodePlan: a complete placement on the command line replaces the launcher's and is reported") {
  const TempFolder folder;
  PlacementRequest request = by_hand(folder, 0);
  const NodePlan plan = plan_node(request, task_of(Launcher::slurm, 1), no_store());
  CHECK(plan.node == 0);
  CHECK_FALSE(plan.task);
  CHECK(plan.description ==
        "node 0 of 2; ignored: task 1 of 2 under Slurm, since --node-rank is given");
}

TEST_CASE("NodePlan: contradictory options are errors") {
  const TempFolder folder;
  const LauncherTask task = task_of(Launcher::slurm, 1);
  PlacementRequest request = request_in(folder);
  request.nodes = 4;
  CHECK_THAT(error_of(request, task),
             Contains("2 --nnodes (trainer.num_nodes) is 4, but the run has"));
  CHECK_THAT(error_of(request, std::nullopt), Contains("--node-rank with 0 to 3"));
  request.node = 4;
  CHECK_THAT(error_of(request, std::nullopt),
             Contains("--node-rank must be from 0 to 3, got 4: the run has 4 nodes"));
  request.node = 3;
  CHECK_THAT(error_of(request, std::nullopt), Contains("--rdzv-endpoint HOST:PORT"));
  request.nodes = 1;
  CHECK_THAT(error_of(request, std::nullopt), Contains("the run has one node"));
  request.nodes.reset();
  CHECK_THAT(error_of(request, task),
             Contains("--node-rank is 3, but this process is task 1 under Slurm"));
  request = request_in(folder);
  request.devices = 4;
  CHECK_THAT(error_of(request, task),
             Contains("trainer.devices is 4, but this host has 2 tasks under Slurm"));
  request = by_hand(folder, 0);
  request.token_digits = kDigits;
  request.token_file = "token";
  CHECK_THAT(error_of(request, std::nullopt), Contains("leave one out"));
}

TEST_CASE(
    "NodePlan: trainer.num_nodes may count hosts or tasks, and trainer.devices tasks of a host") {
  const TempFolder folder;
  LauncherTask task = task_of(Launcher::slurm, 1);
  task.world_size = 4;
  for (const int nodes : {2, 4}) {
    PlacementRequest request = request_in(folder);
    request.nodes = nodes;
    request.devices = 2;
    request.token_digits = kDigits;
    CHECK(plan_node(request, task, no_store()).nodes == 4);
  }
  task.whole_node = true;
  PlacementRequest request = request_in(folder);
  request.devices = 8;
  request.token_digits = kDigits;
  const NodePlan plan = plan_node(request, task, no_store());
  CHECK(plan.devices_per_node == 0);
  CHECK(plan.description == "node 1 of 4 under Slurm");
}

TEST_CASE("NodePlan: a task has the cores it is bound to, or its share of the host's cores") {
  NodePlan plan;
  plan.task = task_of(Launcher::torchrun, 0);
  plan.local_world_size = 4;
  CHECK(cores_of(plan, 64, 64) == 16);
  CHECK(cores_of(plan, 8, 64) == 2);  // like taskset around torchrun
  CHECK(cores_of(plan, 2, 64) == 1);
  plan.task = task_of(Launcher::slurm, 0);
  plan.task->may_bind = true;
  CHECK(cores_of(plan, 16, 64) == 16);
  CHECK(cores_of(plan, 64, 64) == 16);
  plan.task->cores_here = 8;  // the host has 64, and the task is not bound
  CHECK(cores_of(plan, 8, 64) == 2);
  CHECK(cores_of(plan, 2, 64) == 2);
}

TEST_CASE("NodePlan: the worker of a task sees only the GPU of its local rank") {
  NodePlan plan;
  plan.task = task_of(Launcher::torchrun, 1);
  plan.local_rank = 1;
  plan.local_world_size = 2;
  const auto seen = [&](int count, const char* list) {
    return worker_placement(plan, {count, list}).environment["CUDA_VISIBLE_DEVICES"];
  };
  CHECK(seen(4, "") == "1");
  CHECK(seen(2, "6,7") == "7");
  CHECK(seen(2, "GPU-a,GPU-b") == "GPU-b");
  CHECK(worker_placement(plan, {4, ""}).local_rank == 0);
  CHECK(worker_placement(plan, {4, ""}).local_world_size == 2);
  CHECK_THROWS_AS(worker_placement(plan, {1, "0"}), Error);
  plan.task->launcher = Launcher::slurm;
  CHECK(worker_placement(plan, {1, "0"}).environment.empty());  // Slurm shows each task its own GPU
  CHECK_THROWS_AS(worker_placement(plan, {1, ""}), Error);
  CHECK(worker_placement(plan, {0, ""}).local_rank == 1);  // on CPUs
}
