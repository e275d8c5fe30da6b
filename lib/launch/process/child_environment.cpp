#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "launch/process/child.hpp"
#include "launch/process/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace trainctl::launch {
namespace {

using Variables = std::map<std::string, std::string>;

Variables callers_environment() {
  Variables variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=', 1);
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void set_fd(Variables& variables, const char* name, int fd) {
  variables.erase(name);
  if (fd >= 0) variables[name] = std::to_string(fd);
}

// Of libgomp: a fraction of a millisecond, between two operations of a step.
constexpr const char* kSpins = "30000";

void set_waiting(Variables& variables, Waiting waiting) {
  if (variables.contains("OMP_WAIT_POLICY") || variables.contains("GOMP_SPINCOUNT")) return;
  if (waiting == Waiting::spin) {
    variables["GOMP_SPINCOUNT"] = kSpins;
  } else {
    variables["OMP_WAIT_POLICY"] = "passive";
  }
}

std::string with_libraries(const std::vector<std::string>& folders, const std::string& before) {
  const std::string added = join(folders, ":");
  return before.empty() ? added : added + ":" + before;
}

}  // namespace

std::vector<int> cores_for(const LaunchSpec& spec, int rank) {
  const auto here = static_cast<std::size_t>(rank - spec.first_rank());
  return here < spec.cores.size() ? spec.cores[here] : std::vector<int>();
}

std::vector<std::string> worker_environment(const LaunchSpec& spec, int rank,
                                            const InheritedFds& fds) {
  Variables variables = callers_environment();
  const auto keeps = [&](const std::string& name) {
    return variables.contains(name) &&
           std::ranges::find(spec.keep_users, name) != spec.keep_users.end();
  };
  for (const auto& [name, value] : spec.environment) {
    if (!keeps(name)) variables[name] = value;
  }
  // Read by the libraries while they are being loaded, so they must be there before exec.
  set_waiting(variables, spec.waiting);
  variables.emplace("KINETO_LOG_LEVEL", "5");
  variables.emplace("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  if (!spec.library_path.empty()) {
    variables["LD_LIBRARY_PATH"] = with_libraries(spec.library_path, variables["LD_LIBRARY_PATH"]);
  }
  variables[kEnvReady] = "1";
  variables[kSupervisorPid] = std::to_string(::getpid());
  const NodePlace& place = spec.place;
  const int local_world = place.local_world_size > 0 ? place.local_world_size : spec.ranks_here();
  variables[kRank] = std::to_string(rank);
  variables[kLocalRank] = std::to_string(place.local_rank + rank - spec.first_rank());
  variables[kWorldSize] = std::to_string(spec.world_size);
  variables[kLocalWorldSize] = std::to_string(local_world);
  variables.erase(kOwnCores);
  if (!cores_for(spec, rank).empty()) variables[kOwnCores] = "1";
  set_fd(variables, kEventFd, fds.events);
  set_fd(variables, kHeartbeatFd, fds.heartbeat);
  set_fd(variables, kStoreFd, fds.store);
  set_fd(variables, kStacksFd, fds.stacks);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace trainctl::launch
