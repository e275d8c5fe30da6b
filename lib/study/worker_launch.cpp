#include "study/worker_launch.hpp"

#include "launch/environment.hpp"
#include "study/allocators.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace trainctl::study {
namespace {

// libgomp reads it while it is loaded, so it has to be there before the worker is exec'd.
constexpr const char* kThreads = "OMP_NUM_THREADS";

std::map<std::string, std::string> environment_of(const WorkerLaunch& wish) {
  const int share = std::max(1, wish.machine.cores / wish.devices.ranks);
  return {{kThreads, std::to_string(wish.trainer.num_threads.value_or(share))},
          {launch::kAccelerator, wish.devices.gpu ? "gpu" : "cpu"}};
}

std::vector<std::string> library_path() {
  const char* root = std::getenv(launch::kTorchRoot);
  if (root == nullptr) return {};
  return {std::string(root) + "/lib", std::string(root) + "/../nvidia/cu13/lib"};
}

}  // namespace

launch::LaunchSpec worker_launch(const WorkerLaunch& wish) {
  launch::LaunchSpec launch;
  launch.argv = {wish.executable.string(), "worker", "--run-dir", wish.folder.string()};
  launch.environment = environment_of(wish);
  launch.library_path = library_path();
  add_allocator(wish.trainer.allocator, launch);
  if (wish.trainer.num_threads.is_auto()) launch.keep_users.emplace_back(kThreads);
  launch.log_folder = wish.folder / "logs";
  return launch;
}

}  // namespace trainctl::study
