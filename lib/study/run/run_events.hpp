#pragma once

#include "base/clock.hpp"
#include "events/records.hpp"
#include "launch/supervise/supervisor.hpp"
#include "report/record/run_record.hpp"
#include "study/run/run_start.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace trainctl::study {

/// Tells what a run has chosen (launch, device, threads, data): on the console under -v, and in the
/// log of each rank.
class RunLog {
 public:
  /// `folder` has rank_N.log.
  explicit RunLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void starts(const launch::LaunchSpec& launch) const;
  /// Throws Error(resource) where the log cannot be written.
  void on_event(int rank, const events::Event& event) const;
  /// A line of the supervisor's own. Throws as on_event().
  void tell(int rank, const std::string& line) const;

 private:
  std::filesystem::path folder_;
};

/// What becomes of the events of one start: the record of the run, the logs of its ranks, the
/// sinks.
class RunEvents {
 public:
  using OnStarted = std::function<void()>;

  /// `start` and `record` outlive it. `on_started`: once versions and data are in the record.
  RunEvents(const Start& start, fs::path folder, report::RunRecord& record, OnStarted on_started)
      : start_(start),
        folder_(std::move(folder)),
        record_(record),
        on_started_(std::move(on_started)),
        log_(folder_ / "logs") {}

  void listen(Sinks sinks) { sinks_ = std::move(sinks); }
  /// Totals and the best epoch are those of the whole run; its file is written when a better comes.
  void recall_epochs();
  /// Throws Error(data) where a run that goes on has other data, and what sinks throw. A full disk
  /// becomes a warning.
  void on_event(int rank, const events::Event& event);
  void on_tick(const Clock& clock);

  [[nodiscard]] const Sinks& sinks() const { return sinks_; }
  [[nodiscard]] const RunLog& log() const { return log_; }

 private:
  [[nodiscard]] events::Resumed judged(events::Resumed resumed) const;
  void take(int rank, const events::Event& event);
  void warn(const std::string& message);
  template <class Body>
  void write_if_possible(const Body& body);

  const Start& start_;
  fs::path folder_;
  report::RunRecord& record_;
  OnStarted on_started_;
  RunLog log_;
  Sinks sinks_;
};

}  // namespace trainctl::study
