#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Workers of a run as another process of the same user sees them.

namespace trainctl::study {

/// What the page of a rank says.
struct Stamp {
  std::int64_t step = 0;
  std::string phase;  // "train"
  double age_s = 0;
};

struct RankProcess {
  int rank = 0;
  double cpu_s = 0;  // since its start
  double age_s = 0;  // since its start
  std::uint64_t rss_bytes = 0;
  std::optional<Stamp> stamp;  // nothing: it has not stamped, or its page cannot be read
};

/// The children of the process that are ranks of a run, by pid.
std::vector<int> rank_processes(int supervisor);

/// Nothing: it has gone, or is of another user.
std::optional<RankProcess> look_at_rank(int pid);

}  // namespace trainctl::study
