#pragma once

#include "launch/supervise/supervisor.hpp"

#include <sys/types.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

namespace trainctl::launch {

/// The settings that the supervisor passes to this worker. Descriptors are inherited and closed by
/// execve(); -1 means none.
struct WorkerEnv {
  bool supervised = false;  // false: started by hand, as a single rank without a supervisor
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int event_fd = -1;
  int heartbeat_fd = -1;
  int store_fd = -1;
  int stacks_fd = -1;
  std::string accelerator;    // "cpu" or "gpu"; empty: the worker chooses
  std::string group_address;  // address for other nodes; empty: there are none
};

/// Reads the environment strictly. Throws Error(config) naming a variable that is missing, invalid
/// or out of range, or a descriptor that is not open. Throws Error(rank_failed) if the parent is no
/// longer the supervisor.
WorkerEnv read_worker_env();

/// Installs handlers for SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP (unless ignored) that only
/// store the first signal in stop_signal(), which the training thread polls. System calls are
/// restarted (SA_RESTART). A second signal ends the process immediately with exit code 130 (SIGINT)
/// or 143; signals from the supervisor and repeats within 0.2 s do not count as a second one.
void install_stop_flag();
/// Returns a pointer to 0 or the stop signal. The pointer is passed to the engine, which shares no
/// state with the front half.
const volatile int* stop_signal();

// The environment that a worker is started with is, with its arguments ("trainctl worker --run-dir
// DIR"), the whole interface from supervisor to worker. Names are torchrun's if torchrun has one.
// TRAINCTL_OWN_CORES in base/machine.hpp belongs to it as well.

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
    "TRAINCTL_STACKS_FD";  // write end of the pipe for thread stacks
inline constexpr const char* kAccelerator =
    "TRAINCTL_ACCELERATOR";  // "cpu" or "gpu": the supervisor decides
inline constexpr const char* kGroupAddress =
    "TRAINCTL_GROUP_ADDRESS";  // numeric address that ranks of other nodes connect to
inline constexpr const char* kSupervisorPid =
    "TRAINCTL_SUPERVISOR_PID";  // a worker with another parent exits
inline constexpr const char* kEnvReady =
    "TRAINCTL_ENV_READY";  // "1": set before execve(), so the worker need not re-execute itself
inline constexpr const char* kTorchRoot = "TRAINCTL_TORCH_ROOT";

/// File descriptors that a worker inherits; -1 means none.
struct InheritedFds {
  int events = -1;
  int heartbeat = -1;
  int store = -1;
  int stacks = -1;
};

/// Returns the dedicated cores of a rank on this machine; empty if the rank is not pinned.
std::vector<int> cores_for(const LaunchSpec& spec, int rank);

/// Returns the environment of a worker as NAME=VALUE: the caller's variables, overridden by ours.
std::vector<std::string> worker_environment(const LaunchSpec& spec, int rank,
                                            const InheritedFds& fds);

/// The arguments of start_child(), prepared before fork().
struct ChildPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string log_path;  // for stdout and stderr, appended
  InheritedFds fds;      // each above 2
  sigset_t mask{};
  std::vector<int> cores;  // that all threads are pinned to; empty if not pinned
};

/// Starts a process with fork() and execve(). The child dies with the calling thread
/// (PR_SET_PDEATHSIG), leads a separate process group, so that Ctrl-C in a terminal reaches only
/// the supervisor, and inherits only the descriptors of the plan. Returns once the program runs;
/// otherwise throws Error(resource) naming the path.
pid_t start_child(const ChildPlan& plan);

/// Makes orphaned descendants of the job children of this process (PR_SET_CHILD_SUBREAPER). The
/// destructor kills and reaps those that appeared in the meantime, so that processes that a worker
/// started, even daemons, do not outlive the job.
class OrphanReaper {
 public:
  OrphanReaper();
  ~OrphanReaper();
  OrphanReaper(const OrphanReaper&) = delete;
  OrphanReaper& operator=(const OrphanReaper&) = delete;

 private:
  std::set<pid_t> children_before_;
  int subreaper_before_ = 0;
};

/// Starts a small process that kills the process group of this one as soon as this one ends for any
/// reason, so that processes of a plug-in do not outlive a worker whose supervisor was killed. Must
/// be called before other threads exist. Returns false and does nothing if this process leads no
/// group or the kernel has no pidfd.
bool kill_group_on_exit();

}  // namespace trainctl::launch
