#pragma once

#include <sys/types.h>

#include <set>

namespace trainctl::launch {

/// While it lives, orphans of the job become our children; at its end those that appeared meanwhile
/// are killed and reaped, so that a worker's own children, even daemons, do not outlive it.
class OrphanKeeper {
 public:
  OrphanKeeper();
  ~OrphanKeeper();
  OrphanKeeper(const OrphanKeeper&) = delete;
  OrphanKeeper& operator=(const OrphanKeeper&) = delete;

 private:
  std::set<pid_t> children_before_;
  int subreaper_before_ = 0;
};

/// Starts a small process that kills the group of this one as soon as this one has ended, however
/// that was: so what a plug-in has started does not outlive a worker, even where the supervisor was
/// killed and cannot see to that. To be called before there are other threads. Returns false, and
/// does nothing, where this process leads no group or the kernel has no pidfd.
bool end_group_with_us();

}  // namespace trainctl::launch
