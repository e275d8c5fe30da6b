#include "launch/launchers/launcher_environment.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/process/worker_environment.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace trainctl::launch {
namespace {

bool is_host(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int> positive_number(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && *value > 0 ? value : std::nullopt;
}

/// An element of Slurm's task counts: "2(x3)" means 2 tasks on each of 3 nodes.
struct Repeated {
  int tasks = 0;
  int nodes = 1;
};

std::optional<Repeated> read_repeated(std::string_view text) {
  const std::size_t bracket = text.find("(x");
  const auto tasks = positive_number(text.substr(0, bracket));
  if (!tasks) return std::nullopt;
  if (bracket == std::string_view::npos) return Repeated{*tasks, 1};
  if (!text.ends_with(')')) return std::nullopt;
  const auto nodes = positive_number(text.substr(bracket + 2, text.size() - bracket - 3));
  return nodes ? std::optional(Repeated{*tasks, *nodes}) : std::nullopt;
}

}  // namespace

std::string first_host(const std::string& list) {
  const auto refuse = [&]() -> std::string {
    throw Error(
        ErrorKind::config,
        fmt::format("the node list of Slurm must have names such as 'node[01-03,7]', got '{}'\n"
                    "hint: set MASTER_ADDR to the first host",
                    printable(list)));
  };
  std::string host;
  std::string_view rest = list;
  while (!rest.empty() && rest.front() != ',') {  // "rack[1-2]node[3-4]" has two ranges
    if (rest.front() != '[') {
      host += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return refuse();
    const std::string_view range = rest.substr(1, close - 1);
    const std::string_view first = range.substr(0, range.find_first_of("-,"));
    if (!is_number(first)) return refuse();
    host += first;
    rest.remove_prefix(close + 1);
  }
  return is_host(host) ? host : refuse();
}

int tasks_of_node(const std::string& counts, int node) {
  int before = 0;
  for (const std::string& part : split(counts, ',')) {
    const auto repeated = read_repeated(part);
    ENSURE(config, repeated.has_value(),
           "SLURM_STEP_TASKS_PER_NODE must have numbers such as '2(x3),1', got '{}'",
           printable(counts));
    if (node - before < repeated->nodes) return repeated->tasks;
    before += repeated->nodes;
  }
  throw Error(ErrorKind::config,
              fmt::format("SLURM_NODEID is {}, but SLURM_STEP_TASKS_PER_NODE '{}' has {} node(s)",
                          node, printable(counts), before));
}

std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step) {
  constexpr std::uint64_t kFirst = 12000;
  constexpr std::uint64_t kPorts = 16000;
  constexpr std::uint64_t kStride = 4093;  // a prime: neighboring jobs differ
  return static_cast<std::uint16_t>(kFirst + (job % kPorts + step % kPorts * kStride) % kPorts);
}

namespace {

inline constexpr int kMostTasks = 1 << 16;

/// Reads the variables of a launcher strictly; an empty variable counts as unset. Throws
/// Error(config) naming the variable.
class Variables {
 public:
  struct Range {
    std::int64_t least;
    std::int64_t most;
  };

  /// `getenv` must outlive the object.
  explicit Variables(const GetEnv& getenv) : getenv_(getenv) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = getenv_(name);
    return value == nullptr ? "" : value;
  }
  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }

  [[nodiscard]] std::optional<std::int64_t> number(const char* name, Range range) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    const auto found = parse_number<std::int64_t>(value);
    ENSURE(config, found && *found >= range.least && *found <= range.most,
           "environment variable {} must be a whole number from {} to {}, got '{}'", name,
           range.least, range.most, printable(value));
    return found;
  }
  [[nodiscard]] std::optional<int> count(const char* name, int least) const {
    const auto found = number(name, {least, kMostTasks});
    return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
  }
  /// Reads a variable that `launcher` always sets.
  [[nodiscard]] int required(const char* name, int least, Launcher launcher) const {
    const auto found = count(name, least);
    ENSURE(config, found.has_value(), "environment variable {} of {} is not set", name,
           name_of(launcher));
    return *found;
  }

 private:
  const GetEnv& getenv_;
};

constexpr const char* kMasterAddr = "MASTER_ADDR";
constexpr const char* kMasterPort = "MASTER_PORT";
constexpr const char* kLoopback = "127.0.0.1";

/// The variables with a task's rank in the job and on its host.
struct PlaceNames {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr PlaceNames kTorchNames{kRank, kWorldSize, kLocalRank, kLocalWorldSize};
constexpr PlaceNames kOpenMpiNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr PlaceNames kHydraNames{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

void check_place(const TaskPlace& task, const PlaceNames& names) {
  ENSURE(config, task.rank < task.world_size, "{} is {}, but {} is {}", names.rank, task.rank,
         names.size, task.world_size);
  ENSURE(config, task.local_rank < task.local_world_size, "{} is {}, but {} is {}",
         names.local_rank, task.local_rank, names.local_size, task.local_world_size);
  ENSURE(config, task.local_world_size <= task.world_size, "{} is {}, but {} is {}",
         names.local_size, task.local_world_size, names.size, task.world_size);
}

TaskPlace read_place(const Variables& variables, Launcher launcher, const PlaceNames& names) {
  TaskPlace task;
  task.launcher = launcher;
  task.rank = variables.required(names.rank, 0, launcher);
  task.world_size = variables.required(names.size, 1, launcher);
  task.local_rank = variables.count(names.local_rank, 0).value_or(0);
  task.local_world_size =
      variables.count(names.local_size, 1).value_or(std::max(1, task.local_rank + 1));
  check_place(task, names);
  return task;
}

std::optional<std::uint16_t> read_port(const Variables& variables) {
  const auto port = variables.number(kMasterPort, {1, std::numeric_limits<std::uint16_t>::max()});
  return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

/// Reads MASTER_ADDR and MASTER_PORT for launchers that leave them to the user.
void take_users_master(const Variables& variables, TaskPlace& task) {
  task.master_addr = variables.text(kMasterAddr);
  task.master_port = read_port(variables);
  const bool is_one_host = task.local_world_size == task.world_size;
  if (task.master_addr.empty() && is_one_host) task.master_addr = kLoopback;
}

/// Checks RANK and WORLD_SIZE, which scripts often derive from the launcher's variables.
void check_users_rank(const Variables& variables, const PlaceNames& names, TaskPlace& task) {
  const auto rank = variables.count(kRank, 0);
  const auto size = variables.count(kWorldSize, 1);
  ENSURE(config, !rank || *rank == task.rank,
         "{} is {}, but {} of {} is {}\nhint: unset the wrong one", kRank, rank.value_or(0),
         names.rank, name_of(task.launcher), task.rank);
  if (size && *size != task.world_size)
    task.ignored.push_back(fmt::format("{}={}, because {} has started {} tasks", kWorldSize, *size,
                                       name_of(task.launcher), task.world_size));
}

TaskPlace torchrun_place(const Variables& variables) {
  TaskPlace task = read_place(variables, Launcher::torchrun, kTorchNames);
  task.master_addr = variables.text(kMasterAddr);
  task.master_port = read_port(variables);
  ENSURE(config, !task.master_addr.empty() && task.master_port,
         "environment variable {} of torchrun is not set",
         task.master_addr.empty() ? kMasterAddr : kMasterPort);
  task.restart = variables.count("TORCHELASTIC_RESTART_COUNT", 0);
  task.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  task.job_id = fmt::format("torchrun-{}-{}.{}", variables.text("TORCHELASTIC_RUN_ID"),
                            *task.master_port, task.restart.value_or(0));
  if (variables.has("SLURM_STEP_ID"))
    task.ignored.emplace_back("the variables of Slurm, whose task started torchrun");
  return task;
}

std::optional<TaskPlace> mpi_place(const Variables& variables, const PlaceNames& names) {
  if (!variables.has(names.rank) || !variables.has(names.size)) return std::nullopt;
  TaskPlace task = read_place(variables, Launcher::mpi, names);
  take_users_master(variables, task);
  check_users_rank(variables, names, task);
  const bool knows_local = variables.has(names.local_size);
  task.whole_node = knows_local && task.local_world_size == 1;
  task.may_bind = true;
  const std::string space = variables.text("PMIX_NAMESPACE");
  if (!space.empty()) task.job_id = "mpi-" + space;
  if (variables.has("SLURM_JOB_ID"))
    task.ignored.emplace_back("the variables of Slurm, whose job started MPI");
  return task;
}

/// `srun --mpi=pmi2` also sets the variables of MPICH.
bool is_slurms_pmi(const Variables& variables) {
  return variables.text("PMI_RANK") == variables.text("SLURM_PROCID") &&
         variables.text("PMI_SIZE") == variables.text("SLURM_STEP_NUM_TASKS");
}

std::string node_list(const Variables& variables) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (variables.has(name)) return variables.text(name);
  }
  return "";
}

void take_slurms_job(const Variables& variables, TaskPlace& task) {
  constexpr Variables::Range kAny{0, std::numeric_limits<std::int64_t>::max()};
  const std::int64_t job = variables.number("SLURM_JOB_ID", kAny).value_or(0);
  const std::int64_t step = variables.number("SLURM_STEP_ID", kAny).value_or(0);
  task.restart = variables.count("SLURM_RESTART_COUNT", 0);
  task.job_id = fmt::format("slurm-{}.{}.{}", job, step, task.restart.value_or(0));
  if (!task.master_port)
    task.master_port =
        port_of_job(static_cast<std::uint64_t>(job), static_cast<std::uint64_t>(step));
  if (task.master_addr.empty()) {
    const std::string list = node_list(variables);
    ENSURE(config, !list.empty(),
           "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set\nhint: set MASTER_ADDR to "
           "the host of task 0");
    task.master_addr = first_host(list);
  }
}

TaskPlace slurm_place(const Variables& variables) {
  constexpr PlaceNames kNames{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                              "SLURM_STEP_TASKS_PER_NODE"};
  TaskPlace task;
  task.launcher = Launcher::slurm;
  task.rank = variables.required(kNames.rank, 0, task.launcher);
  task.world_size = variables.required(kNames.size, 1, task.launcher);
  task.local_rank = variables.required(kNames.local_rank, 0, task.launcher);
  const int node = variables.count("SLURM_NODEID", 0).value_or(0);
  const std::string counts = variables.text(kNames.local_size);
  task.local_world_size = counts.empty() ? task.local_rank + 1 : tasks_of_node(counts, node);
  check_place(task, kNames);
  take_users_master(variables, task);
  check_users_rank(variables, kNames, task);
  task.whole_node = variables.count("SLURM_STEP_NUM_NODES", 1).value_or(1) == task.world_size;
  task.cores_here = variables.count("SLURM_CPUS_ON_NODE", 1);
  task.may_bind = true;
  take_slurms_job(variables, task);
  return task;
}

/// Reads the variables of a PyTorchJob or an Indexed Job. Each pod is a node that owns its GPUs.
TaskPlace kubernetes_place(const Variables& variables) {
  TaskPlace task;
  task.launcher = Launcher::kubernetes;
  task.whole_node = true;
  const bool has_nodes = variables.has("PET_NNODES");
  ENSURE(
      config, variables.text("PET_NNODES").find(':') == std::string::npos,
      "PET_NNODES is '{}': an elastic PyTorchJob, whose number of nodes changes, needs torchrun\n"
      "hint: use 'torchrun --no-python trainctl run ...' as the container's command",
      printable(variables.text("PET_NNODES")));
  // WORLD_SIZE counts processes if the operator knows the number of processes per pod.
  const std::string processes = variables.text("PET_NPROC_PER_NODE");
  const bool counted =
      !processes.empty() && processes.find_first_not_of("0123456789") == std::string::npos;
  const int each = counted ? variables.required("PET_NPROC_PER_NODE", 1, task.launcher) : 1;
  const int total = has_nodes ? variables.required("PET_NNODES", 1, task.launcher) * each
                              : variables.required(kWorldSize, 1, task.launcher);
  ENSURE(config, total % each == 0, "{} must be a multiple of PET_NPROC_PER_NODE ({}), got {}",
         kWorldSize, each, total);
  task.world_size = total / each;
  const char* rank = kRank;
  for (const char* name : {"PET_NODE_RANK", kRank, "JOB_COMPLETION_INDEX"}) {
    rank = name;
    if (variables.has(name)) break;
  }
  task.rank = variables.required(rank, 0, task.launcher);
  ENSURE(config, task.rank < task.world_size, "{} is {}, but there are {} pods", rank, task.rank,
         task.world_size);
  task.master_addr = variables.text(kMasterAddr);
  task.master_port = read_port(variables);
  ENSURE(config, task.world_size == 1 || !task.master_addr.empty(),
         "environment variable {} is not set\nhint: set it to the DNS name of pod 0 (see "
         "scripts/cluster/indexed-job.yaml)",
         kMasterAddr);
  return task;
}

bool is_in_kubernetes(const Variables& variables) {
  if (!variables.has("KUBERNETES_SERVICE_HOST")) return false;
  if (variables.has("PET_NNODES") && !variables.has(kWorldSize)) return true;
  const bool has_rank = variables.has(kRank) || variables.has("JOB_COMPLETION_INDEX");
  return has_rank && variables.has(kWorldSize);
}

std::optional<TaskPlace> plain_place(const Variables& variables) {
  const bool is_one = variables.has(kRank) && variables.has(kWorldSize);
  if (!is_one || !variables.has(kMasterAddr)) return std::nullopt;
  TaskPlace task = read_place(variables, Launcher::plain, kTorchNames);
  task.master_addr = variables.text(kMasterAddr);
  task.master_port = read_port(variables);
  return task;
}

/// Returns the task of the innermost launcher that started it.
std::optional<TaskPlace> find_place(const Variables& variables) {
  if (variables.has("TORCHELASTIC_RUN_ID")) return torchrun_place(variables);
  if (auto task = mpi_place(variables, kOpenMpiNames)) return task;
  const bool is_step = variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID");
  if (!is_step || !is_slurms_pmi(variables)) {
    if (auto task = mpi_place(variables, kHydraNames)) return task;
  }
  if (is_step) return slurm_place(variables);
  if (is_in_kubernetes(variables)) return kubernetes_place(variables);
  return plain_place(variables);
}

constexpr const char* kOwnWorkers = "'trainctl run' starts its own workers";

/// A launcher of one task says nothing about ranks, except torchrun, whose one task is one rank.
TaskPlace unless_alone(TaskPlace task) {
  if (task.world_size > 1 || task.launcher == Launcher::torchrun) return task;
  TaskPlace alone;
  alone.ignored = std::move(task.ignored);
  alone.ignored.push_back(
      fmt::format("the single task of {}: {}", name_of(task.launcher), kOwnWorkers));
  return alone;
}

TaskPlace inside_an_allocation(const Variables& variables) {
  TaskPlace alone;
  const std::string tasks = variables.text("SLURM_NTASKS");
  alone.ignored.push_back(fmt::format(
      "the allocation of Slurm job {}{}, because srun did not start this process: {}",
      printable(variables.text("SLURM_JOB_ID")),
      tasks.empty() ? "" : fmt::format(" ({} task(s))", printable(tasks)), kOwnWorkers));
  return alone;
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::torchrun: return "torchrun";
    case Launcher::slurm: return "Slurm";
    case Launcher::mpi: return "MPI";
    case Launcher::kubernetes: return "Kubernetes";
    case Launcher::plain: return "RANK and WORLD_SIZE";
    case Launcher::none: break;
  }
  return "no launcher";
}

std::optional<TaskPlace> task_place(const GetEnv& getenv) {
  const Variables variables(getenv);
  if (auto task = find_place(variables)) return unless_alone(std::move(*task));
  if (variables.has("SLURM_JOB_ID")) return inside_an_allocation(variables);
  return std::nullopt;
}

}  // namespace trainctl::launch
