#pragma once

#include "report/compare/bench.hpp"

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace trainctl::report {

/// Numbers of the runs of one setting by name, each in the order of the repeats. A number that one
/// of the runs does not tell is left out.
using Samples = std::map<std::string, std::vector<double>>;

/// What every run tells, or may, beside the metrics of its last epoch ("train/loss").
inline constexpr std::array kMeasures{"samples_per_s", "total_s", "epoch_s",    "startup_s",
                                      "first_batch_s", "rss_mb",  "gpu_mem_mb", "exposed_s"};

Samples samples_of(std::span<const Trial> trials);

}  // namespace trainctl::report
