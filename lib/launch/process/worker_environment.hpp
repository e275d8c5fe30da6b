#pragma once

#include "base/error.hpp"
#include "launch/supervise/failure_evidence.hpp"

#include <filesystem>
#include <string>

// The worker's side of launch/environment.hpp.

namespace trainctl::launch {

/// What the supervisor told this worker. Descriptors are inherited and closed by exec; -1: none.
struct WorkerEnv {
  bool supervised = false;  // started by a supervisor; else by hand: one rank, nobody listens
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int event_fd = -1;
  int heartbeat_fd = -1;
  int store_fd = -1;
  int stacks_fd = -1;
  std::string accelerator;    // "cpu" or "gpu"; empty: the worker chooses
  std::string group_address;  // by which other nodes reach it; empty: there are none
};

/// Reads the environment strictly: Error(config) names the variable that is missing, garbage or out
/// of range, or the descriptor that is not open. Error(rank_failed) where the parent is not the
/// supervisor any more.
WorkerEnv read_worker_env();

/// From here on SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP (unless ignored) only set the number
/// that stop_signal() points to, the first of them; the training thread polls it. Does not
/// interrupt system calls (SA_RESTART). A second one ends the process at once with 130 (SIGINT) or
/// 143; what the supervisor passes on is none, nor is the same signal within 0.2 s.
void install_stop_flag();
/// 0, or the signal that asks for a stop. To be handed to the engine, which has no state in common
/// with the front half.
const volatile int* stop_signal();

// The environment a worker is started with: the whole interface between supervisor and worker,
// beside argv
// ("trainctl worker --run-dir DIR"). torchrun's names where they exist. TRAINCTL_OWN_CORES, which
// is read in base/machine.hpp, belongs to it, too.

inline constexpr const char* kRank = "RANK";
inline constexpr const char* kWorldSize = "WORLD_SIZE";
inline constexpr const char* kLocalRank = "LOCAL_RANK";
inline constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kEventFd = "TRAINCTL_EVENT_FD";  // write end of the event pipe
inline constexpr const char* kHeartbeatFd =
    "TRAINCTL_HEARTBEAT_FD";  // memfd of one events::Heartbeat
inline constexpr const char* kStoreFd =
    "TRAINCTL_STORE_FD";  // socket to the rendezvous store; world > 1
inline constexpr const char* kStacksFd =
    "TRAINCTL_STACKS_FD";  // write end of the pipe for the stacks of its threads
inline constexpr const char* kAccelerator =
    "TRAINCTL_ACCELERATOR";  // "cpu" or "gpu": the supervisor decides
inline constexpr const char* kGroupAddress =
    "TRAINCTL_GROUP_ADDRESS";  // numeric: by which the ranks of other nodes reach this one
inline constexpr const char* kSupervisorPid =
    "TRAINCTL_SUPERVISOR_PID";  // a worker whose parent is another one leaves
inline constexpr const char* kEnvReady =
    "TRAINCTL_ENV_READY";  // "1": set before exec, the worker need not exec itself
inline constexpr const char* kTorchRoot = "TRAINCTL_TORCH_ROOT";

}  // namespace trainctl::launch
