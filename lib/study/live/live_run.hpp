#pragma once

#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/text/top.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace trainctl::study {

/// Observes a run of another process through the files of its folder, the shared-memory pages of
/// its ranks, and /proc. It never writes to or contacts the run. Unreadable values are omitted, and
/// damaged files count as missing.
class LiveRun {
 public:
  explicit LiveRun(fs::path run_dir) : run_dir_(std::move(run_dir)) {}

  /// `now` is in seconds of one steady clock. Rates refer to the time since the previous call; the
  /// first call takes rates from the files.
  report::TopView snapshot(double now);

 private:
  struct Sample {
    double at = 0;
    std::int64_t step = -1;
    double cpu_s = 0;
  };

  void add_processes(report::TopView& view, double now);
  [[nodiscard]] report::TopRank rank_of(int pid, double now);

  fs::path run_dir_;
  std::map<int, Sample> samples_;  // by pid, from the previous call
  std::unique_ptr<Nvml> nvml_;     // loaded for the first run that uses a GPU
};

}  // namespace trainctl::study
