#pragma once

#include "data/loader/loader.hpp"
#include "dist/grad_sync.hpp"
#include "events/records.hpp"
#include "train/loop/session.hpp"
#include "train/step/forward.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trainctl::train {

/// Tells the supervisor where training stands: the shared page at every step, the progress bar a
/// few times a second, a log line every so many steps. Only rank 0 speaks of progress.
class Reporter {
 public:
  Reporter(const Session& session, at::Device device);

  /// Counts the seconds of the run from that time of the session's clock.
  void begin_run(double begun) { begun_ = begun; }
  /// Begins an epoch: `meter` starts from nothing.
  void begin_epoch();
  /// Goes on in the middle of an epoch as if `meter` had been told so far.
  void begin_at(const LossMeter& meter);
  void step(events::Phase phase, const Position& position, double now, const LossMeter* meter);
  /// A log point: all ranks call it at the same step. Returns the mean loss since the last one;
  /// nothing, and logs NaN, where every loss since then was left out.
  std::optional<double> log(const Position& position, double lr, double now,
                            const StepRunner& step);
  void emit(const events::Event& event) const;
  /// What a log line in the middle of an epoch takes from those before it.
  void memorise(Memo& memo);

 private:
  struct Mark {
    double total = 0;
    double weight = 0;

    void memorise(Memo& memo) {
      memo.value("total", &total);
      memo.value("weight", &weight);
    }
  };
  [[nodiscard]] std::optional<double> recent_loss(const LossMeter& meter);

  const Session& session_;
  bool speaks_;
  bool reads_freely_;  // a CPU: reading a loss waits for nothing
  double begun_;
  double last_progress_;
  std::optional<double> shown_loss_;
  Mark progress_mark_;
  Mark log_mark_;
};

/// Names each damaged sample that a loader replaced (dataset.on_error: skip), once a run, as a
/// warning.
class SkippedReport {
 public:
  void tell(const std::string& split, const data::Loader& loader, const EventSink& emit);

 private:
  std::set<std::string> told_;
};

/// What one rank knows of an epoch that is over.
struct RankShare {
  int rank = 0;
  const events::EpochEnded& ended;   // with this rank's own timing
  std::int64_t steps = 0;            // of the optimizer, by this process
  const dist::SyncStats& exchanged;  // of gradients and weights
  std::vector<std::int64_t> bucket_bytes;
};

events::RankEpoch rank_epoch(const RankShare& share);

}  // namespace trainctl::train
