#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace trainctl {

/// Counts that the training thread waits for the device at `place`, e.g. "losses of the log point":
/// it reads a value from device memory, or synchronizes with a stream or an event that may not be
/// done. Between two log points, a step must not wait. Thread-safe.
void count_host_wait(std::string_view place);

/// Returns how often the process has waited at each place so far.
std::map<std::string, std::int64_t> host_waits();

/// Returns the waits since host_waits() has returned `before`, without places that have none.
std::map<std::string, std::int64_t> host_waits_since(
    const std::map<std::string, std::int64_t>& before);

}  // namespace trainctl
