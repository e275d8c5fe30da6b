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

struct VerifyResume {
  int kills = 5;
  std::uint64_t seed = 0;
  fs::path scratch;  // gets a run folder for the uninterrupted run and for each kill
  std::function<void(const std::string& line)> say;  // as it goes on
};

/// What makes any training run one that can be compared: every step told, its full state saved,
/// nothing that depends on time or starts it again.
std::vector<std::string> comparable_run();

/// Overrides that pin what a run measured at its start to choose for itself, and what another run
/// might choose otherwise: threads and the memory format of images.
std::vector<std::string> choices_of(const events::RunStarted& began);

/// Runs `request` once; then kills runs of it with SIGKILL at drawn steps, one rank or all in turn,
/// resumes each to its end and compares it with the first. `request` has the overrides of
/// comparable_run(). What is identical is removed from the scratch folder at once. Throws Error
/// where the uninterrupted run does not end well, or a signal ends one of them.
report::ResumeCheck verify_resume(const RunRequest& request, const VerifyResume& wish,
                                  const Clock& clock);

/// Of a run: global steps, counted from 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

/// Steps at which runs are killed: all different, the same for the same seed. Throws Error(config)
/// where the range has fewer steps than there are kills.
std::vector<std::int64_t> draw_kill_points(std::uint64_t seed, int kills, StepRange range);

/// Steps from checkpoint to checkpoint, so that a run has about ten of them, and not all of them
/// at the ends of its epochs.
std::int64_t checkpoint_interval(std::int64_t steps, std::int64_t steps_per_epoch);

/// Kills the processes of a run with SIGKILL once it has reached a step. It is called on the thread
/// that reaps them, so none of their numbers can be that of another process by then.
class Killer final : public report::Sink {
 public:
  /// `rank` absent: all of them.
  Killer(std::int64_t step, std::optional<int> rank) : step_(step), rank_(rank) {}

  void on_event(int rank, const events::Event& event) override;
  void on_tick(double /*now*/) override {}
  void close() override {}

 private:
  void fire();

  std::int64_t step_;
  std::optional<int> rank_;
  std::map<int, pid_t> processes_;
  bool fired_ = false;
};

}  // namespace trainctl::study
