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

}  // namespace trainctl::launch
