#pragma once

#include "launch/supervise/supervisor.hpp"

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Descriptors a worker inherits; -1: none.
struct InheritedFds {
  int events = -1;
  int heartbeat = -1;
  int store = -1;
  int stacks = -1;
};

/// The cores of its own that a rank of this machine is started on; empty: any.
std::vector<int> cores_for(const LaunchSpec& spec, int rank);

/// The whole environment of one worker as NAME=VALUE: the caller's, ours over it.
std::vector<std::string> worker_environment(const LaunchSpec& spec, int rank,
                                            const InheritedFds& fds);

/// Everything a child needs, prepared before fork.
struct ChildPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string log_path;  // stdout and stderr, appended
  InheritedFds fds;      // above 2
  sigset_t mask{};
  std::vector<int> cores;  // that it keeps to, with all its threads; empty: any
};

/// fork + exec. The child dies with the calling thread (PR_SET_PDEATHSIG), leads a process group of
/// its own, so that a terminal's Ctrl-C reaches only the supervisor, and keeps no descriptor but
/// those of the plan. Returns once the program runs; throws Error(resource) naming the path
/// otherwise.
pid_t start_child(const ChildPlan& plan);

}  // namespace trainctl::launch
