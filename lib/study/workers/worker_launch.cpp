#include "study/workers/worker_launch.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/allocator.hpp"
#include "base/machine/environment.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/numa.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/process/child.hpp"
#include "launch/rendezvous/address.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/resume/config_changes.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdlib>

namespace trainctl::study {
namespace {

// libgomp reads it when it is loaded, so it must be set before the worker's exec.
constexpr const char* kOmpThreads = "OMP_NUM_THREADS";

int cores_here(const WorkerLaunch& workers) {
  return workers.cores > 0 ? workers.cores : workers.machine.cores;
}

std::map<std::string, std::string> environment_of(const WorkerLaunch& workers) {
  const int share = std::max(1, cores_here(workers) / workers.devices.ranks);
  std::map<std::string, std::string> variables{
      {kOmpThreads, std::to_string(workers.trainer.num_threads.value_or(share))},
      {launch::kAccelerator, workers.devices.gpu ? "gpu" : "cpu"}};
  if (workers.cores > 0) variables[kCoresVariable] = std::to_string(share);
  return variables;
}

/// Configures NCCL's watchdog as docs/reference/nodes.md describes: it ends a process whose
/// collective hangs, within the run's own limit, writes no dumps, and does not try to abort NCCL,
/// which may block forever (https://github.com/NVIDIA/nccl/issues/1013).
void watch_nccl(const WorkerLaunch& workers, launch::LaunchSpec& launch) {
  if (!workers.devices.gpu || workers.collective_timeout_s <= 0) return;
  const double seconds = std::ceil(std::clamp(workers.collective_timeout_s, 1.0, 1e6));
  const std::map<std::string, std::string> settings{
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
      {"TORCH_NCCL_ENABLE_MONITORING", "1"},
      {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", fmt::format("{:.0f}", seconds)},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000"}};
  for (const auto& [name, value] : settings) {
    launch.environment[name] = value;
    launch.user_variables.push_back(name);
  }
}

// Percent of the time: if threads wait longer for a core, other processes need the cores.
constexpr double kBusyPercent = 10;

double batches_to_stop(const WorkerLaunch& workers) {
  const bool synchronizes =
      workers.devices.gpu && workers.devices.ranks * workers.trainer.num_nodes > 1;
  // The ranks act on a request at the exchange after the one that reports it.
  const std::int64_t steps =
      synchronizes ? 2 * spec::agreement_every(workers.trainer.log_every_n_steps) : 1;
  return static_cast<double>(steps * workers.trainer.accumulate_grad_batches);
}

/// The threads are not bound if the user binds them.
bool user_binds_threads() {
  constexpr std::array kNames{"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  return std::ranges::any_of(kNames, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::vector<std::optional<int>> nodes_of_gpus(const DeviceChoice& devices, const Machine& machine) {
  std::vector<std::optional<int>> nodes(static_cast<std::size_t>(devices.ranks));
  const bool is_known = devices.gpu && numbers_by_pci();
  for (std::size_t rank = 0; is_known && rank < nodes.size(); ++rank) {
    const std::size_t gpu =
        devices.gpus.empty() ? rank : static_cast<std::size_t>(devices.gpus[rank]);
    if (gpu < machine.gpus.size()) nodes[rank] = node_of_gpu(machine.gpus[gpu]);
  }
  return nodes;
}

std::vector<std::string> library_path() {
  const char* root = std::getenv(launch::kTorchRoot);
  if (root == nullptr) return {};
  return {std::string(root) + "/lib", std::string(root) + "/../nvidia/cu13/lib"};
}

constexpr const char* kKeepaliveVariable = "TRAINCTL_NODE_BEAT_S";
constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";
constexpr const char* kPerNode = "distributed.interface";  // may differ between nodes

// NCCL and Gloo open their own sockets in addition to ours.
void name_interface(const std::string& address, launch::LaunchSpec& launch) {
  launch.environment[launch::kGroupAddress] = address;
  const std::string interface = launch::interface_of(address);
  std::map<std::string, std::string> variables;
  if (!interface.empty()) variables["NCCL_SOCKET_IFNAME"] = "=" + interface;
  if (address.find(':') != std::string::npos) variables["NCCL_SOCKET_FAMILY"] = "AF_INET6";
  for (const auto& [name, value] : variables) {
    launch.environment[name] = value;
    launch.user_variables.push_back(name);
  }
}

// Returns the cores of a launcher's task; 0 (all of the machine) without a launcher.
int cores_here(const RunRequest& request) {
  const auto online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return request.nodes ? cores_of(*request.nodes, usable_cores(), online) : 0;
}

void place(const NodeLaunch& node, launch::LaunchSpec& launch) {
  const NodePlan& plan = *node.request.nodes;
  const char* visible = std::getenv(kVisibleGpus);
  const WorkerPlacement here =
      worker_placement(plan, {node.devices.gpu ? node.devices.visible : 0, visible ? visible : ""});
  launch.placement = {.nodes = plan.nodes,
                      .node = plan.node,
                      .local_rank = here.local_rank,
                      .local_world_size = here.local_world_size};
  if (!plan.is_one_rank()) launch.placement.local_world_size = node.devices.ranks;
  for (const auto& [name, value] : here.environment) launch.environment[name] = value;
  if (!node.address.empty()) name_interface(node.address, launch);
}

constexpr std::array kLibraries{
    AllocatorLibrary{spec::Allocator::jemalloc, "jemalloc", "libjemalloc.so.2", "libjemalloc2"},
    AllocatorLibrary{spec::Allocator::mimalloc, "mimalloc", "libmimalloc.so.2", "libmimalloc2.0"},
};

constexpr const char* kPreload = "LD_PRELOAD";

struct AllocatorSetting {
  spec::Allocator allocator;
  const char* name;
  const char* value;
};
// By default jemalloc returns blocks of 8 MiB and more at once, and both allocators return the rest
// soon, so each step would cause page faults for its tensors.
constexpr std::array kSettings{
    AllocatorSetting{spec::Allocator::jemalloc, "MALLOC_CONF",
                     "oversize_threshold:0,dirty_decay_ms:600000,muzzy_decay_ms:600000"},
    AllocatorSetting{spec::Allocator::mimalloc, "MIMALLOC_ALLOW_DECOMMIT", "0"},  // version 2.0
    AllocatorSetting{spec::Allocator::mimalloc, "MIMALLOC_PURGE_DELAY", "-1"},    // since 2.1
};

bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(
      text, word, {}, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

}  // namespace

launch::OmpWaitPolicy choose_omp_wait_policy(const WorkerLaunch& workers, double pressure) {
  const int threads = workers.trainer.num_threads.value_or(1) * workers.devices.ranks;
  const bool oversubscribed = threads > cores_here(workers) || pressure > kBusyPercent;
  return oversubscribed ? launch::OmpWaitPolicy::sleep : launch::OmpWaitPolicy::spin;
}

std::vector<std::vector<int>> cores_of(const WorkerLaunch& workers, launch::OmpWaitPolicy waiting) {
  const std::vector<int> allowed = allowed_cores();
  const bool has_part = cores_here(workers) < std::ssize(allowed);
  // If other processes need the cores, the scheduler finds better cores than a fixed assignment.
  if (waiting == launch::OmpWaitPolicy::sleep || has_part || user_binds_threads()) return {};
  const auto own = cores_of_ranks(numa_nodes(), by_physical_core(allowed),
                                  nodes_of_gpus(workers.devices, workers.machine));
  // On a CPU all ranks compute with the number of threads that rank 0 chooses. The communication
  // thread needs an additional core: bound to one core, two ranks took 1.5 times as long for a
  // short step.
  const int threads = workers.devices.gpu ? workers.trainer.num_threads.value_or(1)
                                          : cores_here(workers) / workers.devices.ranks;
  const int least = std::max(threads, 2);
  const bool fits =
      std::ranges::all_of(own, [&](const auto& cores) { return std::ssize(cores) >= least; });
  return fits ? own : std::vector<std::vector<int>>();
}

launch::LaunchSpec worker_launch(const WorkerLaunch& workers) {
  launch::LaunchSpec launch;
  launch.argv = {workers.executable.string(), "worker", "--run-dir", workers.folder.string()};
  launch.environment = environment_of(workers);
  if (!workers.devices.names.empty()) launch.environment[kVisibleGpus] = workers.devices.names;
  launch.omp_wait_policy = choose_omp_wait_policy(workers, cpu_pressure());
  launch.cores = cores_of(workers, launch.omp_wait_policy);
  launch.library_path = library_path();
  add_allocator(workers.trainer.allocator, launch);
  watch_nccl(workers, launch);
  if (workers.trainer.num_threads.is_auto()) launch.user_variables.emplace_back(kOmpThreads);
  launch.log_folder = workers.folder / "logs";
  launch.batches_to_stop = batches_to_stop(workers);
  if (const auto& limit = workers.trainer.hang_timeout.value)
    launch.hang_timeout_s = spec::parse_duration(*limit);
  return launch;
}

launch::KeepaliveTimes keepalive_times() {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 60;
  constexpr double kMissed = 3;
  launch::KeepaliveTimes times;
  const char* text = std::getenv(kKeepaliveVariable);
  if (text == nullptr) return times;
  const auto interval_s = parse_number<double>(text);
  ENSURE(config, interval_s && *interval_s >= kLeast && *interval_s <= kMost,
         "the environment variable {} must be a number of seconds from {} to {}, got '{}'",
         kKeepaliveVariable, kLeast, kMost, printable(text));
  times.interval_s = *interval_s;
  times.timeout_s = kMissed * times.interval_s;
  return times;
}

std::string config_digest(const spec::Loaded& loaded) {
  std::string text;
  for (const auto& [path, value] : resolved_values(spec::dump_resolved(loaded))) {
    if (path != kPerNode) text += path + "=" + value + "\n";
  }
  return to_hex(sha256(text));
}

std::string first_difference(const std::string& theirs, const spec::Loaded& ours) {
  for (const ConfigChange& change : config_changes(theirs, ours)) {
    if (change.path != kPerNode)
      return fmt::format("{} is {} on node 0 and {} on this node", change.path,
                         printable(change.before), printable(change.now));
  }
  return "";
}

std::string group_address(const spec::Experiment& experiment, const std::string& local) {
  const std::string& interface = experiment.distributed.interface;
  return interface.empty() ? local : launch::interface_address(interface, local);
}

launch::LaunchSpec launch_spec(const NodeLaunch& node) {
  const RunRequest& request = node.request;
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  launch::LaunchSpec launch =
      worker_launch({.executable = request.executable,
                     .folder = node.folder,
                     .trainer = trainer,
                     .machine = node.machine,
                     .devices = node.devices,
                     .cores = cores_here(request),
                     .collective_timeout_s = request.loaded.experiment.distributed.timeout_s});
  launch.argv.insert(launch.argv.end(), static_cast<std::size_t>(request.verbosity), "-v");
  launch.world_size = node.devices.ranks * (request.nodes ? request.nodes->nodes : 1);
  if (request.nodes) place(node, launch);
  const bool saves = request.job.kind == spec::JobKind::train;
  if (!saves) launch.stop_grace_s = launch.grace_s;
  return launch;
}

std::span<const AllocatorLibrary> allocator_libraries() { return kLibraries; }

void add_allocator(spec::Allocator asked, launch::LaunchSpec& launch) {
  const auto* library = std::ranges::find(kLibraries, asked, &AllocatorLibrary::allocator);
  if (library == kLibraries.end()) return;
  const auto file = find_shared_library(library->file);
  ENSURE(resource, file.has_value(),
         "trainer.allocator is {}, but the dynamic linker cannot find {}\nhint: install it "
         "(Debian: {}), add its folder to LD_LIBRARY_PATH, or set trainer.allocator=system",
         library->name, library->file, library->package);
  const std::string preloads = environment_value(kPreload);
  launch.environment[kPreload] = file->string() + (preloads.empty() ? "" : ":" + preloads);
  for (const AllocatorSetting& setting : kSettings) {
    if (setting.allocator != asked) continue;
    launch.environment[setting.name] = setting.value;
    launch.user_variables.emplace_back(setting.name);
  }
}

// libgomp gives GOMP_SPINCOUNT precedence, and accepts both words for an infinite count.
std::string spin_variable() {
  const std::string count = environment_value("GOMP_SPINCOUNT");
  if (is_word(count, "infinite") || is_word(count, "infinity")) return "GOMP_SPINCOUNT=" + count;
  const std::string policy = environment_value("OMP_WAIT_POLICY");
  return count.empty() && is_word(policy, "active") ? "OMP_WAIT_POLICY=" + policy : "";
}

std::string slow_variable() {
  const std::string spins = spin_variable();
  if (!spins.empty()) return spins;
  return environment_value("CUDA_LAUNCH_BLOCKING") == "1" ? "CUDA_LAUNCH_BLOCKING=1" : "";
}

}  // namespace trainctl::study
