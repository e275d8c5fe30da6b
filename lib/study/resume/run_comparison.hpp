#pragma once

#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/contents.hpp"
#include "report/record/run_record.hpp"
#include "report/text/verify_resume.hpp"

#include <cstdint>
#include <map>
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

/// identical where there is no difference.
report::Agreement finding(const std::optional<std::string>& difference);

/// A section of the last checkpoints of two run folders. One that cannot be read is different, too.
report::Agreement compare_section(const fs::path& expected, const fs::path& found,
                                  const checkpoint::Section& section);

/// Digests of batches as runs tell them.
struct BatchDigests {
  std::map<std::int64_t, std::string> epochs;  // from 0; those that have one
  std::string run;                             // empty: it has none
};
/// Those of a run, which may go on with an earlier one.
BatchDigests batch_digests(const std::vector<const report::RunRecord*>& records);
/// What `found` does not tell is left out; where it tells nothing, that is said.
report::Agreement compare(const BatchDigests& expected, const BatchDigests& found);

}  // namespace trainctl::study
