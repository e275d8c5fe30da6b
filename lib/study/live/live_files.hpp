#pragma once

#include "base/files.hpp"
#include "report/text/top.hpp"

#include <cstdint>
#include <optional>

// What the files of a run's folder tell while it is under way. What cannot be read is left out;
// what is damaged counts as not there.

namespace trainctl::study {

/// How far the run is to go, by its manifest.
struct LiveCourse {
  std::int64_t max_epochs = 0;       // 0: not known
  std::int64_t steps_per_epoch = 0;  // 0: not known
  std::optional<double> global_batch;
};
LiveCourse course_of(const fs::path& run_dir);

/// Whether it runs, and how it ended: by its lock and result.json.
void add_state(const fs::path& run_dir, report::TopView& view);
/// Of metrics.jsonl.
void add_metrics(const fs::path& run_dir, report::TopView& view);
/// Of epochs.csv; asks for what the view has of metrics and course.
void add_last_epoch(const fs::path& run_dir, report::TopView& view);
void add_checkpoint(const fs::path& run_dir, report::TopView& view);
/// The last of all logs.
void add_warnings(const fs::path& run_dir, report::TopView& view);

}  // namespace trainctl::study
