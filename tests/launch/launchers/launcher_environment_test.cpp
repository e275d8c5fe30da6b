#include "launch/launchers/launcher_environment.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <map>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::launch;

namespace {

using Environment = std::map<std::string, std::string>;

std::optional<LauncherTask> task_in(const Environment& environment) {
  return find_launcher_task([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

/// Returns a copy with some variables changed; those set to "unset" are removed.
Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) {
    environment[name] = value;
    if (value == "unset") environment.erase(name);
  }
  return environment;
}

std::string error_of(const Environment& environment) {
  try {
    task_in(environment);
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "accepted";
}

/// Returns "torchrun 1/2 local 1/2 localhost:37779".
std::string to_text(const std::optional<LauncherTask>& task) {
  if (!task) return "nothing";
  return fmt::format("{} {}/{} local {}/{} {}:{}{}", name_of(task->launcher), task->rank,
                     task->world_size, task->local_rank, task->local_world_size, task->master_addr,
                     task->master_port.value_or(0), task->whole_node ? " node" : "");
}

// torchrun 2.11, Slurm 22.05, Open MPI 4.1 and MPICH 4 set these variables.
const Environment kTorchrun{{"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"GROUP_RANK", "0"},
                            {"GROUP_WORLD_SIZE", "1"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", "29511"},
                            {"OMP_NUM_THREADS", "1"},
                            {"TORCHELASTIC_MAX_RESTARTS", "0"},
                            {"TORCHELASTIC_RESTART_COUNT", "0"},
                            {"TORCHELASTIC_RUN_ID", "none"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Environment kAllocation{{"SLURM_JOB_ID", "7"},       {"SLURM_JOBID", "7"},
                              {"SLURM_PROCID", "0"},       {"SLURM_LOCALID", "0"},
                              {"SLURM_NODEID", "0"},       {"SLURM_NTASKS", "2"},
                              {"SLURM_NNODES", "1"},       {"SLURM_TASKS_PER_NODE", "2"},
                              {"SLURM_CPUS_ON_NODE", "2"}, {"SLURM_JOB_NODELIST", "slurmnode"}};

const Environment kStep = with(kAllocation, {{"SLURM_PROCID", "1"},
                                             {"SLURM_LOCALID", "1"},
                                             {"SLURM_STEP_ID", "3"},
                                             {"SLURM_STEP_NODELIST", "slurmnode"},
                                             {"SLURM_STEP_NUM_NODES", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                             {"SLURM_LAUNCH_NODE_IPADDR", "10.77.0.1"}});

const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "962002945"},     {"PMIX_RANK", "1"}};

const Environment kHydra{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

const Environment kPyTorchJob{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                              {"RANK", "1"},
                              {"WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "mnist-master-0"},
                              {"MASTER_PORT", "23456"},
                              {"PYTHONUNBUFFERED", "0"}};

const Environment kPlain{{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "1"},
                         {"MASTER_ADDR", "node1"},
                         {"MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("launcher task: read from the variables of each launcher") {
  struct Row {
    const char* what;
    Environment environment;
    const char* text;
  };
  const Environment two_nodes{{"SLURM_STEP_NUM_NODES", "2"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                              {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                              {"SLURM_JOB_NODELIST", "gpu[06-08]"}};
  const std::vector<Row> rows{
      {"torchrun, static", kTorchrun, "torchrun 1/2 local 1/2 127.0.0.1:29511"},
      {"torchrun --standalone",
       with(kTorchrun, {{"MASTER_ADDR", "localhost"},
                        {"TORCHELASTIC_RUN_ID", "1a0809bd-81d3-45ff-9c28-28f65db09c0d"}}),
       "torchrun 1/2 local 1/2 localhost:29511"},
      {"torchrun of one rank",
       with(kTorchrun,
            {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}),
       "torchrun 0/1 local 0/1 127.0.0.1:29511"},
      {"srun on one host", kStep, "Slurm 1/2 local 1/2 127.0.0.1:24286"},
      {"srun, one task a host", with(kStep, two_nodes), "Slurm 1/2 local 0/1 gpu07:24286 node"},
      {"srun with MASTER_ADDR and MASTER_PORT of the script",
       with(with(kStep, two_nodes), {{"MASTER_ADDR", "gpu07-ib"}, {"MASTER_PORT", "29500"}}),
       "Slurm 1/2 local 0/1 gpu07-ib:29500 node"},
      {"srun --mpi=pmi2", with(kStep, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
       "Slurm 1/2 local 1/2 127.0.0.1:24286"},
      {"mpirun of Open MPI", kOpenMpi, "MPI 1/2 local 1/2 127.0.0.1:0"},
      {"mpirun of Open MPI, one task a host",
       with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
       "MPI 1/2 local 0/1 :0 node"},
      {"mpiexec of MPICH", kHydra, "MPI 1/2 local 1/2 127.0.0.1:0"},
      {"PyTorchJob", kPyTorchJob, "Kubernetes 1/2 local 0/1 mnist-master-0:23456 node"},
      {"PyTorchJob that counts processes",
       with(kPyTorchJob, {{"WORLD_SIZE", "8"}, {"PET_NPROC_PER_NODE", "4"}, {"PET_NNODES", "2"}}),
       "Kubernetes 1/2 local 0/1 mnist-master-0:23456 node"},
      {"PyTorchJob with processes by device",
       with(kPyTorchJob,
            {{"PET_NPROC_PER_NODE", "auto"}, {"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}}),
       "Kubernetes 1/2 local 0/1 mnist-master-0:23456 node"},
      {"Indexed Job",
       {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
        {"JOB_COMPLETION_INDEX", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "mnist-0.mnist"}},
       "Kubernetes 1/2 local 0/1 mnist-0.mnist:0 node"},
      {"set by hand", kPlain, "RANK and WORLD_SIZE 1/2 local 0/1 node1:29500"},
      {"nothing", {{"PATH", "/bin"}}, "nothing"},
      {"a pod of no job", {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}, "nothing"},
      {"empty variables",
       {{"RANK", ""}, {"WORLD_SIZE", ""}, {"TORCHELASTIC_RUN_ID", ""}},
       "nothing"},
      {"RANK without MASTER_ADDR", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "nothing"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(to_text(task_in(row.environment)) == row.text);
  }
}

TEST_CASE("launcher task: the innermost launcher counts") {
  Environment both = kStep;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  const auto torchrun = task_in(both);
  CHECK(to_text(torchrun) == "torchrun 1/2 local 1/2 127.0.0.1:29511");
  REQUIRE(torchrun->ignored.size() == 1);
  CHECK(torchrun->ignored.front() == "the variables of Slurm, because torchrun sets its own");

  // mpirun starts one daemon per node with srun, and its tasks inherit the variables of srun.
  Environment mpi = with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  mpi.insert(kOpenMpi.begin(), kOpenMpi.end());
  CHECK(task_in(mpi)->launcher == Launcher::mpi);
  Environment hydra = with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  hydra.insert(kHydra.begin(), kHydra.end());
  CHECK(task_in(hydra)->launcher == Launcher::mpi);
}

TEST_CASE("launcher task: an allocation without srun and a single task are reported and ignored") {
  const auto allocation = task_in(kAllocation);
  REQUIRE(allocation);
  CHECK(allocation->launcher == Launcher::none);
  CHECK(allocation->ignored ==
        std::vector<std::string>{"the allocation of Slurm job 7 (2 task(s)), because srun did not "
                                 "start this process, and 'trainctl run' starts its own workers"});
  const auto single = task_in(with(kStep, {{"SLURM_PROCID", "0"},
                                           {"SLURM_LOCALID", "0"},
                                           {"SLURM_STEP_NUM_TASKS", "1"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "1"}}));
  REQUIRE(single);
  CHECK(single->launcher == Launcher::none);
  CHECK(single->world_size == 1);
  CHECK(single->ignored.back() ==
        "the single task of Slurm, because 'trainctl run' starts its own workers");
}

TEST_CASE("launcher task: each start of a job has a different id") {
  const auto id = [](const Environment& environment) { return task_in(environment)->job_id; };
  CHECK(id(kTorchrun) == "torchrun-none-29511.0");
  CHECK(id(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}})) == "torchrun-none-29511.2");
  CHECK(id(kStep) == "slurm-7.3.0");
  CHECK(id(with(kStep, {{"SLURM_RESTART_COUNT", "1"}})) == "slurm-7.3.1");
  CHECK(id(kOpenMpi) == "mpi-962002945");
  CHECK(id(kHydra).empty());
  CHECK(task_in(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}}))->restart == 2);
  CHECK_FALSE(task_in(kStep)->restart);
}

TEST_CASE("launcher task: only torchrun with an agent store offers its store") {
  CHECK(task_in(kTorchrun)->agent_store);
  CHECK_FALSE(task_in(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->agent_store);
  CHECK_FALSE(task_in(kPlain)->agent_store);
}

TEST_CASE("launcher task: launchers that may bind tasks to cores report the cores of the host") {
  CHECK(task_in(kStep)->may_bind);
  CHECK(task_in(kStep)->cores_here == 2);
  CHECK(task_in(kOpenMpi)->may_bind);
  CHECK_FALSE(task_in(kTorchrun)->may_bind);
}

TEST_CASE("launcher task: a different WORLD_SIZE is ignored, a different RANK is an error") {
  const auto task = task_in(with(kStep, {{"RANK", "1"}, {"WORLD_SIZE", "16"}}));
  CHECK(task->ignored ==
        std::vector<std::string>{"WORLD_SIZE=16, because Slurm has started 2 tasks"});
  CHECK(error_of(with(kStep, {{"RANK", "0"}})) ==
        "2 RANK is 0, but SLURM_PROCID of Slurm is 1\nhint: unset RANK, or set it to the same "
        "number");
}

TEST_CASE("launcher task: missing, invalid and contradictory variables are named") {
  struct Row {
    Environment environment;
    const char* words;
  };
  const std::vector<Row> rows{
      {with(kTorchrun, {{"RANK", "2"}}), "2 RANK must be below WORLD_SIZE (2), got 2"},
      {with(kTorchrun, {{"RANK", "one"}}),
       "2 environment variable RANK must be a whole number from 0 to 65536, got 'one'"},
      {with(kTorchrun, {{"RANK", "-1"}}), "65536, got '-1'"},
      {with(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}}), "65536, got '9999"},
      {with(kTorchrun, {{"RANK", "unset"}}),
       "2 environment variable RANK is not set, but required with torchrun"},
      {with(kTorchrun, {{"MASTER_PORT", "unset"}}),
       "MASTER_PORT is not set, but required with torchrun"},
      {with(kTorchrun, {{"MASTER_PORT", "70000"}}),
       "MASTER_PORT must be a whole number from 1 to 65535, got '70000'"},
      {with(kTorchrun, {{"LOCAL_RANK", "2"}}),
       "LOCAL_RANK must be below LOCAL_WORLD_SIZE (2), got 2"},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "3"}}),
       "LOCAL_WORLD_SIZE must be at most WORLD_SIZE (2), got 3"},
      {with(kStep, {{"SLURM_STEP_NUM_TASKS", "1"}}),
       "SLURM_PROCID must be below SLURM_STEP_NUM_TASKS (1), got 1"},
      {with(kStep, {{"SLURM_LOCALID", "unset"}}),
       "SLURM_LOCALID is not set, but required with Slurm"},
      {with(kStep, {{"SLURM_STEP_TASKS_PER_NODE", "1,1"},
                    {"SLURM_STEP_NODELIST", "unset"},
                    {"SLURM_JOB_NODELIST", "unset"},
                    {"SLURM_NODEID", "1"},
                    {"SLURM_LOCALID", "0"}}),
       "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set\nhint: set MASTER_ADDR"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "5"}}),
       "OMPI_COMM_WORLD_RANK must be below OMPI_COMM_WORLD_SIZE (2), got 5"},
      {with(kPyTorchJob, {{"PET_NNODES", "1:4"}}), "needs torchrun"},
      {with(kPyTorchJob, {{"MASTER_ADDR", "unset"}}),
       "MASTER_ADDR is not set\nhint: set it to the DNS"},
      {with(kPyTorchJob, {{"RANK", "2"}}), "RANK must be below the number of pods (2), got 2"},
      {with(kPlain, {{"RANK", "x\x1b"}}), "65536, got 'x\\x1b'"},
  };
  for (const Row& row : rows) {
    const std::string text = error_of(row.environment);
    CAPTURE(text, row.words);
    CHECK(text.find(row.words) != std::string::npos);
  }
}
