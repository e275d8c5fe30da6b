#include "launch/launchers/launcher_environment.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/process/child.hpp"

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
struct TaskCount {
  int tasks = 0;
  int nodes = 1;
};

std::optional<TaskCount> parse_task_count(std::string_view text) {
  const std::size_t bracket = text.find("(x");
  const auto tasks = positive_number(text.substr(0, bracket));
  if (!tasks) return std::nullopt;
  if (bracket == std::string_view::npos) return TaskCount{*tasks, 1};
  if (!text.ends_with(')')) return std::nullopt;
  const auto nodes = positive_number(text.substr(bracket + 2, text.size() - bracket - 3));
  return nodes ? std::optional(TaskCount{*tasks, *nodes}) : std::nullopt;
}

inline constexpr int kMaxTasks = 1 << 16;

/// Reads the variables of a launcher strictly; an empty variable counts as unset. Throws
/// Error(config) naming the variable.
class EnvironmentReader {
 public:
  struct Range {
    std::int64_t least;
    std::int64_t most;
  };

  /// `getenv` must outlive the object.
  explicit EnvironmentReader(const GetEnv& getenv) : getenv_(getenv) {}

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
    const auto found = number(name, {least, kMaxTasks});
    return found ? std::optional(static_cast<int>(*found)) : std::nullopt;
  }
  /// Reads a variable that `launcher` always sets.
  [[nodiscard]] int required(const char* name, int least, Launcher launcher) const {
    const auto found = count(name, least);
    ENSURE(config, found.has_value(), "environment variable {} is not set, but required with {}",
           name, name_of(launcher));
    return *found;
  }

 private:
  const GetEnv& getenv_;
};

constexpr const char* kMasterAddr = "MASTER_ADDR";
constexpr const char* kMasterPort = "MASTER_PORT";
constexpr const char* kLoopback = "127.0.0.1";

/// The variables with a task's rank in the job and on its host.
struct RankVariables {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr RankVariables kTorchNames{kRank, kWorldSize, kLocalRank, kLocalWorldSize};
constexpr RankVariables kOpenMpiNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr RankVariables kHydraNames{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

void check_rank_variables(const LauncherTask& task, const RankVariables& names) {
  ENSURE(config, task.rank < task.world_size, "{} must be below {} ({}), got {}", names.rank,
         names.size, task.world_size, task.rank);
  ENSURE(config, task.local_rank < task.local_world_size, "{} must be below {} ({}), got {}",
         names.local_rank, names.local_size, task.local_world_size, task.local_rank);
  ENSURE(config, task.local_world_size <= task.world_size, "{} must be at most {} ({}), got {}",
         names.local_size, names.size, task.world_size, task.local_world_size);
}

LauncherTask read_rank_variables(const EnvironmentReader& env, Launcher launcher,
                                 const RankVariables& names) {
  LauncherTask task;
  task.launcher = launcher;
  task.rank = env.required(names.rank, 0, launcher);
  task.world_size = env.required(names.size, 1, launcher);
  task.local_rank = env.count(names.local_rank, 0).value_or(0);
  task.local_world_size = env.count(names.local_size, 1).value_or(std::max(1, task.local_rank + 1));
  check_rank_variables(task, names);
  return task;
}

std::optional<std::uint16_t> read_port(const EnvironmentReader& env) {
  const auto port = env.number(kMasterPort, {1, std::numeric_limits<std::uint16_t>::max()});
  return port ? std::optional(static_cast<std::uint16_t>(*port)) : std::nullopt;
}

/// Reads MASTER_ADDR and MASTER_PORT for launchers that leave them to the user.
void read_user_master(const EnvironmentReader& env, LauncherTask& task) {
  task.master_addr = env.text(kMasterAddr);
  task.master_port = read_port(env);
  const bool is_single_host = task.local_world_size == task.world_size;
  if (task.master_addr.empty() && is_single_host) task.master_addr = kLoopback;
}

/// Checks RANK and WORLD_SIZE, which scripts often derive from the launcher's variables.
void check_user_rank(const EnvironmentReader& env, const RankVariables& names, LauncherTask& task) {
  const auto rank = env.count(kRank, 0);
  const auto size = env.count(kWorldSize, 1);
  ENSURE(config, !rank || *rank == task.rank,
         "{} is {}, but {} of {} is {}\nhint: unset RANK, or set it to the same number", kRank,
         rank.value_or(0), names.rank, name_of(task.launcher), task.rank);
  if (size && *size != task.world_size)
    task.ignored.push_back(fmt::format("{}={}, because {} has started {} tasks", kWorldSize, *size,
                                       name_of(task.launcher), task.world_size));
}

LauncherTask torchrun_task(const EnvironmentReader& env) {
  LauncherTask task = read_rank_variables(env, Launcher::torchrun, kTorchNames);
  task.master_addr = env.text(kMasterAddr);
  task.master_port = read_port(env);
  ENSURE(config, !task.master_addr.empty() && task.master_port,
         "environment variable {} is not set, but required with torchrun",
         task.master_addr.empty() ? kMasterAddr : kMasterPort);
  task.restart = env.count("TORCHELASTIC_RESTART_COUNT", 0);
  task.agent_store = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  task.job_id = fmt::format("torchrun-{}-{}.{}", env.text("TORCHELASTIC_RUN_ID"), *task.master_port,
                            task.restart.value_or(0));
  if (env.has("SLURM_STEP_ID"))
    task.ignored.emplace_back("the variables of Slurm, because torchrun sets its own");
  return task;
}

std::optional<LauncherTask> mpi_task(const EnvironmentReader& env, const RankVariables& names) {
  if (!env.has(names.rank) || !env.has(names.size)) return std::nullopt;
  LauncherTask task = read_rank_variables(env, Launcher::mpi, names);
  read_user_master(env, task);
  check_user_rank(env, names, task);
  const bool has_local_size = env.has(names.local_size);
  task.whole_node = has_local_size && task.local_world_size == 1;
  task.may_bind = true;
  const std::string job_namespace = env.text("PMIX_NAMESPACE");
  if (!job_namespace.empty()) task.job_id = "mpi-" + job_namespace;
  if (env.has("SLURM_JOB_ID"))
    task.ignored.emplace_back("the variables of Slurm, because MPI sets its own");
  return task;
}

/// `srun --mpi=pmi2` also sets the variables of MPICH.
bool is_slurm_pmi(const EnvironmentReader& env) {
  return env.text("PMI_RANK") == env.text("SLURM_PROCID") &&
         env.text("PMI_SIZE") == env.text("SLURM_STEP_NUM_TASKS");
}

std::string node_list(const EnvironmentReader& env) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (env.has(name)) return env.text(name);
  }
  return "";
}

void read_slurm_job(const EnvironmentReader& env, LauncherTask& task) {
  constexpr EnvironmentReader::Range kAny{0, std::numeric_limits<std::int64_t>::max()};
  const std::int64_t job = env.number("SLURM_JOB_ID", kAny).value_or(0);
  const std::int64_t step = env.number("SLURM_STEP_ID", kAny).value_or(0);
  task.restart = env.count("SLURM_RESTART_COUNT", 0);
  task.job_id = fmt::format("slurm-{}.{}.{}", job, step, task.restart.value_or(0));
  if (!task.master_port)
    task.master_port =
        port_of_job(static_cast<std::uint64_t>(job), static_cast<std::uint64_t>(step));
  if (task.master_addr.empty()) {
    const std::string list = node_list(env);
    ENSURE(config, !list.empty(),
           "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set\nhint: set MASTER_ADDR to "
           "the host of task 0");
    task.master_addr = first_host(list);
  }
}

LauncherTask slurm_task(const EnvironmentReader& env) {
  constexpr RankVariables kNames{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                 "SLURM_STEP_TASKS_PER_NODE"};
  LauncherTask task;
  task.launcher = Launcher::slurm;
  task.rank = env.required(kNames.rank, 0, task.launcher);
  task.world_size = env.required(kNames.size, 1, task.launcher);
  task.local_rank = env.required(kNames.local_rank, 0, task.launcher);
  const int node = env.count("SLURM_NODEID", 0).value_or(0);
  const std::string counts = env.text(kNames.local_size);
  task.local_world_size = counts.empty() ? task.local_rank + 1 : tasks_of_node(counts, node);
  check_rank_variables(task, kNames);
  read_user_master(env, task);
  check_user_rank(env, kNames, task);
  task.whole_node = env.count("SLURM_STEP_NUM_NODES", 1).value_or(1) == task.world_size;
  task.cores_here = env.count("SLURM_CPUS_ON_NODE", 1);
  task.may_bind = true;
  read_slurm_job(env, task);
  return task;
}

/// Reads the variables of a PyTorchJob or an Indexed Job. Each pod is a node that owns its GPUs.
LauncherTask kubernetes_task(const EnvironmentReader& env) {
  LauncherTask task;
  task.launcher = Launcher::kubernetes;
  task.whole_node = true;
  const bool has_nodes = env.has("PET_NNODES");
  ENSURE(
      config, env.text("PET_NNODES").find(':') == std::string::npos,
      "PET_NNODES is '{}': an elastic PyTorchJob, whose number of nodes changes, needs torchrun\n"
      "hint: use 'torchrun --no-python trainctl run ...' as the container's command",
      printable(env.text("PET_NNODES")));
  // WORLD_SIZE counts processes if the operator knows the number of processes per pod.
  const std::string processes = env.text("PET_NPROC_PER_NODE");
  const bool counted = is_number(processes);
  const int each = counted ? env.required("PET_NPROC_PER_NODE", 1, task.launcher) : 1;
  const int total = has_nodes ? env.required("PET_NNODES", 1, task.launcher) * each
                              : env.required(kWorldSize, 1, task.launcher);
  ENSURE(config, total % each == 0, "{} must be a multiple of PET_NPROC_PER_NODE ({}), got {}",
         kWorldSize, each, total);
  task.world_size = total / each;
  const char* rank = kRank;
  for (const char* name : {"PET_NODE_RANK", kRank, "JOB_COMPLETION_INDEX"}) {
    rank = name;
    if (env.has(name)) break;
  }
  task.rank = env.required(rank, 0, task.launcher);
  ENSURE(config, task.rank < task.world_size, "{} must be below the number of pods ({}), got {}",
         rank, task.world_size, task.rank);
  task.master_addr = env.text(kMasterAddr);
  task.master_port = read_port(env);
  ENSURE(config, task.world_size == 1 || !task.master_addr.empty(),
         "environment variable {} is not set\nhint: set it to the DNS name of pod 0 (see "
         "scripts/cluster/indexed-job.yaml)",
         kMasterAddr);
  return task;
}

bool is_in_kubernetes(const EnvironmentReader& env) {
  if (!env.has("KUBERNETES_SERVICE_HOST")) return false;
  if (env.has("PET_NNODES") && !env.has(kWorldSize)) return true;
  const bool has_rank = env.has(kRank) || env.has("JOB_COMPLETION_INDEX");
  return has_rank && env.has(kWorldSize);
}

std::optional<LauncherTask> plain_task(const EnvironmentReader& env) {
  const bool has_rank = env.has(kRank) && env.has(kWorldSize);
  if (!has_rank || !env.has(kMasterAddr)) return std::nullopt;
  LauncherTask task = read_rank_variables(env, Launcher::plain, kTorchNames);
  task.master_addr = env.text(kMasterAddr);
  task.master_port = read_port(env);
  return task;
}

/// Returns the task of the innermost launcher that started it.
std::optional<LauncherTask> find_innermost_task(const EnvironmentReader& env) {
  if (env.has("TORCHELASTIC_RUN_ID")) return torchrun_task(env);
  if (auto task = mpi_task(env, kOpenMpiNames)) return task;
  const bool is_step = env.has("SLURM_STEP_ID") && env.has("SLURM_PROCID");
  if (!is_step || !is_slurm_pmi(env)) {
    if (auto task = mpi_task(env, kHydraNames)) return task;
  }
  if (is_step) return slurm_task(env);
  if (is_in_kubernetes(env)) return kubernetes_task(env);
  return plain_task(env);
}

constexpr const char* kOwnWorkers = "'trainctl run' starts its own workers";

/// A launcher of one task says nothing about ranks, except torchrun, whose one task is one rank.
LauncherTask ignore_single_task(LauncherTask task) {
  if (task.world_size > 1 || task.launcher == Launcher::torchrun) return task;
  LauncherTask ignored_task;
  ignored_task.ignored = std::move(task.ignored);
  ignored_task.ignored.push_back(
      fmt::format("the single task of {}, because {}", name_of(task.launcher), kOwnWorkers));
  return ignored_task;
}

LauncherTask allocation_without_srun(const EnvironmentReader& env) {
  LauncherTask ignored_task;
  const std::string tasks = env.text("SLURM_NTASKS");
  ignored_task.ignored.push_back(fmt::format(
      "the allocation of Slurm job {}{}, because srun did not start this process, and {}",
      printable(env.text("SLURM_JOB_ID")),
      tasks.empty() ? "" : fmt::format(" ({} task(s))", printable(tasks)), kOwnWorkers));
  return ignored_task;
}

}  // namespace

std::string first_host(const std::string& list) {
  const auto throw_invalid = [&]() -> std::string {
    THROW(config,
          "the node list of Slurm must have names such as 'node[01-03,7]', got '{}'\n"
          "hint: set MASTER_ADDR to the first host",
          printable(list));
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
    if (close == std::string_view::npos) return throw_invalid();
    const std::string_view range = rest.substr(1, close - 1);
    const std::string_view first = range.substr(0, range.find_first_of("-,"));
    if (!is_number(first)) return throw_invalid();
    host += first;
    rest.remove_prefix(close + 1);
  }
  return is_host(host) ? host : throw_invalid();
}

int tasks_of_node(const std::string& counts, int node) {
  int before = 0;
  for (const std::string& part : split(counts, ',')) {
    const auto count = parse_task_count(part);
    ENSURE(config, count.has_value(),
           "SLURM_STEP_TASKS_PER_NODE must have numbers such as '2(x3),1', got '{}'",
           printable(counts));
    if (node - before < count->nodes) return count->tasks;
    before += count->nodes;
  }
  THROW(config, "SLURM_NODEID must be below {} (SLURM_STEP_TASKS_PER_NODE is '{}'), got {}", before,
        printable(counts), node);
}

std::uint16_t port_of_job(std::uint64_t job, std::uint64_t step) {
  constexpr std::uint64_t kFirst = 12000;
  constexpr std::uint64_t kPorts = 16000;
  constexpr std::uint64_t kStride = 4093;  // a prime: neighboring jobs differ
  return static_cast<std::uint16_t>(kFirst + (job % kPorts + step % kPorts * kStride) % kPorts);
}

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

std::optional<LauncherTask> find_launcher_task(const GetEnv& getenv) {
  const EnvironmentReader env(getenv);
  if (auto task = find_innermost_task(env)) return ignore_single_task(std::move(*task));
  if (env.has("SLURM_JOB_ID")) return allocation_without_srun(env);
  return std::nullopt;
}

}  // namespace trainctl::launch
