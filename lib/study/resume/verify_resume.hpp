#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "checkpoint/contents.hpp"
#include "report/record/run_record.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/verify_resume.hpp"
#include "study/run/run.hpp"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// A line of metrics.jsonl without timestamps and durations.
struct MetricsLine {
  std::string type;  // "step", "epoch"
  std::int64_t step = 0;
  Json values;
};

/// Parses metrics.jsonl. Throws Error(unexpected) that names an invalid line.
std::vector<MetricsLine> parse_metrics(std::string_view text);
/// Reads metrics.jsonl of a run folder; empty without that file.
std::vector<MetricsLine> read_metrics(const fs::path& run_dir);

/// Returns the first bitwise difference; nullopt if the lines are equal. `found` may contain a line
/// twice, as a resumed run does, and both copies must be the expected one. No line may be missing
/// or added.
std::optional<std::string> first_difference(const std::vector<MetricsLine>& expected,
                                            const std::vector<MetricsLine>& found);

report::StateComparison to_comparison(const std::optional<std::string>& difference);

/// Compares a section of the last checkpoints of two run folders. A section that cannot be read
/// counts as different.
report::StateComparison compare_section(const fs::path& expected, const fs::path& found,
                                        const checkpoint::Section& section);

/// The digests of the batches that runs report.
struct BatchDigests {
  std::map<std::int64_t, std::string> epochs;  // by epoch, from 0; only epochs with a digest
  std::string run;                             // empty: no digest
};
/// Collects the digests of a run and of the runs that it resumed.
BatchDigests batch_digests(const std::vector<const report::RunRecord*>& records);
/// Compares the digests that both have; unknown if there are none.
report::StateComparison compare(const BatchDigests& expected, const BatchDigests& found);

/// The options of verify_resume().
struct VerifyResumeOptions {
  int kills = 5;
  std::uint64_t seed = 0;
  fs::path scratch;  // parent of a run folder for the uninterrupted run and for each kill
  std::function<void(const std::string& line)> print_line;  // prints progress
};

/// Returns the overrides that make a training run comparable: every step logged, its full state
/// saved, nothing that depends on time or restarts the run.
std::vector<std::string> comparable_run_overrides();

/// Returns overrides that pin what a run measures at its start: threads and memory format.
std::vector<std::string> measured_overrides(const events::RunStarted& began);

/// Runs `request` once; then kills runs of it with SIGKILL at random steps, alternating between one
/// rank and all ranks, resumes each to its end and compares it with the first. `request` must
/// include the overrides of comparable_run_overrides(). Identical runs are removed from the scratch
/// folder immediately. Throws Error when the uninterrupted run fails, or when a signal ends one of
/// the runs.
report::ResumeCheck verify_resume(const RunRequest& request, const VerifyResumeOptions& options,
                                  const Clock& clock);

/// A range of a run's global steps, counted from 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

/// Returns the steps at which runs are killed: all different, and the same for the same seed.
/// Throws Error(config) when the range has fewer steps than there are kills.
std::vector<std::int64_t> draw_kill_points(std::uint64_t seed, int kills, StepRange range);

/// Returns the number of steps between checkpoints, so that a run has about ten, not all of them at
/// the end of an epoch.
std::int64_t checkpoint_interval(std::int64_t steps, std::int64_t steps_per_epoch);

/// Kills processes of a run with SIGKILL once the run has reached a step. It is called on the
/// thread that reaps the processes, so no pid can belong to another process by then.
class ProcessKiller final : public report::Sink {
 public:
  /// If `rank` is absent, all processes are killed.
  ProcessKiller(std::int64_t step, std::optional<int> rank) : step_(step), rank_(rank) {}

  void on_event(int rank, const events::Event& event) override;
  void on_tick(double /*now*/) override {}
  void close() override {}

 private:
  void kill_processes();

  std::int64_t step_;
  std::optional<int> rank_;
  std::map<int, pid_t> processes_;
  bool has_killed_ = false;
};

}  // namespace trainctl::study
