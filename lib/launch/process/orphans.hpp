#pragma once

#include <sys/types.h>

#include <set>

namespace trainctl::launch {

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
