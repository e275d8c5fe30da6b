#pragma once

namespace trainctl::launch {

/// Starts a small process that kills the group of this one as soon as this one has ended, however
/// that was: so what a plug-in has started does not outlive a worker, even where the supervisor was
/// killed and cannot see to that. To be called before there are other threads. Returns false, and
/// does nothing, where this process leads no group or the kernel has no pidfd.
bool end_group_with_us();

}  // namespace trainctl::launch
