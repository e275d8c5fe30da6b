#pragma once

#include "base/files.hpp"
#include "checkpoint/compare.hpp"
#include "report/record/run_record.hpp"
#include "report/text/verify_resume.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

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
