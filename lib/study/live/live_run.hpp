#pragma once

#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/text/top.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace trainctl::study {

/// Watches a run of another process: by the files of its folder, the pages that its ranks stamp,
/// and /proc. Changes nothing and asks nothing of the run. What cannot be read is left out; what is
/// damaged counts as not there.
class LiveRun {
 public:
  explicit LiveRun(fs::path run_dir) : run_dir_(std::move(run_dir)) {}

  /// `now`: seconds of one steady clock. Rates are of the time since the look before; of the first
  /// one, of what the files tell.
  report::TopView look(double now);

 private:
  struct Sample {
    double at = 0;
    std::int64_t step = -1;
    double cpu_s = 0;
  };

  void add_processes(report::TopView& view, double now);
  [[nodiscard]] report::TopRank rank_of(int pid, double now);

  fs::path run_dir_;
  std::map<int, Sample> samples_;  // by pid, of the look before
  std::unique_ptr<Nvml> nvml_;     // loaded for the first run that uses a GPU
};

}  // namespace trainctl::study
