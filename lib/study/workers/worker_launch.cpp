#include "study/workers/worker_launch.hpp"

#include "base/machine/numa.hpp"
#include "launch/process/environment.hpp"
#include "spec/experiment/agreement.hpp"
#include "spec/experiment/duration.hpp"
#include "study/workers/allocators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {
namespace {

// libgomp reads it while it is loaded, so it has to be there before the worker is exec'd.
constexpr const char* kThreads = "OMP_NUM_THREADS";

int cores_here(const WorkerLaunch& wish) {
  return wish.cores > 0 ? wish.cores : wish.machine.cores;
}

std::map<std::string, std::string> environment_of(const WorkerLaunch& wish) {
  const int share = std::max(1, cores_here(wish) / wish.devices.ranks);
  std::map<std::string, std::string> variables{
      {kThreads, std::to_string(wish.trainer.num_threads.value_or(share))},
      {launch::kAccelerator, wish.devices.gpu ? "gpu" : "cpu"}};
  if (wish.cores > 0) variables[kCoresVariable] = std::to_string(share);
  return variables;
}

/// NCCL's watchdog, as docs/distributed.md tells: it ends a process whose collective does not end,
/// within the run's own limit, writes no dumps meanwhile, and does not try to abort NCCL, which may
/// wait for ever (https://github.com/NVIDIA/nccl/issues/1013).
void watch_nccl(const WorkerLaunch& wish, launch::LaunchSpec& launch) {
  if (!wish.devices.gpu || wish.collective_timeout_s <= 0) return;
  const double seconds = std::ceil(std::clamp(wish.collective_timeout_s, 1.0, 1e6));
  const std::map<std::string, std::string> settings{
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
      {"TORCH_NCCL_ENABLE_MONITORING", "1"},
      {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", fmt::format("{:.0f}", seconds)},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000"}};
  for (const auto& [name, value] : settings) {
    launch.environment[name] = value;
    launch.keep_users.push_back(name);
  }
}

// Of the time: where threads wait for a core longer than this, others need the cores.
constexpr double kBusyPercent = 10;

double batches_to_stop(const WorkerLaunch& wish) {
  const bool meets = wish.devices.gpu && wish.devices.ranks * wish.trainer.num_nodes > 1;
  const std::int64_t steps = meets ? spec::agreement_every(wish.trainer.log_every_n_steps) : 1;
  return static_cast<double>(steps * wish.trainer.accumulate_grad_batches);
}

/// Whoever binds threads himself is left alone.
bool user_binds_threads() {
  constexpr std::array kNames{"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  return std::ranges::any_of(kNames, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::vector<std::optional<int>> nodes_of_gpus(const DeviceChoice& devices, const Machine& machine) {
  std::vector<std::optional<int>> nodes(static_cast<std::size_t>(devices.ranks));
  for (std::size_t rank = 0; devices.gpu && rank < nodes.size(); ++rank) {
    if (rank < machine.gpus.size()) nodes[rank] = node_of_gpu(machine.gpus[rank]);
  }
  return nodes;
}

std::vector<std::string> library_path() {
  const char* root = std::getenv(launch::kTorchRoot);
  if (root == nullptr) return {};
  return {std::string(root) + "/lib", std::string(root) + "/../nvidia/cu13/lib"};
}

}  // namespace

launch::Waiting waiting_of(const WorkerLaunch& wish, double pressure) {
  const int threads = wish.trainer.num_threads.value_or(1) * wish.devices.ranks;
  const bool crowded = threads > cores_here(wish) || pressure > kBusyPercent;
  return crowded ? launch::Waiting::sleep : launch::Waiting::spin;
}

std::vector<std::vector<int>> cores_of(const WorkerLaunch& wish, launch::Waiting waiting) {
  const std::vector<int> allowed = allowed_cores();
  const bool has_part = cores_here(wish) < std::ssize(allowed);
  // Where others need the cores the kernel finds better places than a fixed one.
  if (waiting == launch::Waiting::sleep || has_part || user_binds_threads()) return {};
  const auto own = cores_of_ranks(numa_nodes(), by_physical_core(allowed),
                                  nodes_of_gpus(wish.devices, wish.machine));
  // On a CPU all ranks compute with as many threads as rank 0 chooses. The thread that exchanges
  // needs a core beside theirs: bound to one core, two ranks took 1.5 times as long for a short
  // step.
  const int threads = wish.devices.gpu ? wish.trainer.num_threads.value_or(1)
                                       : cores_here(wish) / wish.devices.ranks;
  const int least = std::max(threads, 2);
  const bool fits =
      std::ranges::all_of(own, [&](const auto& cores) { return std::ssize(cores) >= least; });
  return fits ? own : std::vector<std::vector<int>>();
}

launch::LaunchSpec worker_launch(const WorkerLaunch& wish) {
  launch::LaunchSpec launch;
  launch.argv = {wish.executable.string(), "worker", "--run-dir", wish.folder.string()};
  launch.environment = environment_of(wish);
  launch.waiting = waiting_of(wish, cpu_pressure());
  launch.cores = cores_of(wish, launch.waiting);
  launch.library_path = library_path();
  add_allocator(wish.trainer.allocator, launch);
  watch_nccl(wish, launch);
  if (wish.trainer.num_threads.is_auto()) launch.keep_users.emplace_back(kThreads);
  launch.log_folder = wish.folder / "logs";
  launch.batches_to_stop = batches_to_stop(wish);
  if (const auto& limit = wish.trainer.hang_timeout.value)
    launch.hang_timeout_s = spec::parse_duration(*limit);
  return launch;
}

}  // namespace trainctl::study
