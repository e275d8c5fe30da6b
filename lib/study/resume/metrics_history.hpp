#pragma once

#include "base/files.hpp"
#include "base/json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// A line of metrics.jsonl without what the clock says.
struct MetricsLine {
  std::string type;  // "step", "epoch"
  std::int64_t step = 0;
  Json values;
};

/// Throws Error(unexpected) naming the line that is none.
std::vector<MetricsLine> parse_metrics(std::string_view text);
/// That of a run folder; nothing where it has none.
std::vector<MetricsLine> read_metrics(const fs::path& run_dir);

/// The first difference, bit by bit; nothing where there is none. `found` may tell a line twice, as
/// a resumed run does: both have to be the expected one. None may be missing or added.
std::optional<std::string> first_difference(const std::vector<MetricsLine>& expected,
                                            const std::vector<MetricsLine>& found);

}  // namespace trainctl::study
