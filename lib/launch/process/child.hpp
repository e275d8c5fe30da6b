#pragma once

#include "launch/supervise/supervisor.hpp"

#include <sys/types.h>

#include <csignal>
#include <set>
#include <string>
#include <vector>

namespace trainctl::launch {

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
