#pragma once

// The environment a worker is started with: the whole interface between supervisor and worker,
// beside argv
// ("trainctl worker --run-dir DIR"). torchrun's names where they exist. TRAINCTL_OWN_CORES, which
// is read in base/machine.hpp, belongs to it, too.

namespace trainctl::launch {

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
