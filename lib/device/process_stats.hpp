#pragma once

#include <cstdint>

namespace trainctl::device {

/// Largest resident set of this process so far, in MiB.
double peak_rss_mb();
/// The resident set as it is now, in MiB; 0 where the kernel does not tell.
double rss_mb();
/// CPU time of all threads of this process, in seconds.
double cpu_seconds();
/// Bytes this process has read from storage; 0 where the kernel does not tell.
std::int64_t storage_bytes_read();

}  // namespace trainctl::device
