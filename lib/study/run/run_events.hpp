#pragma once

#include "base/clock.hpp"
#include "report/record/run_record.hpp"
#include "study/run/run.hpp"
#include "study/run/run_start.hpp"

#include <functional>
#include <map>
#include <string>

namespace trainctl::study {

/// Returns " NAME=VALUE" for each entry.
std::string pairs(const std::map<std::string, std::string>& values);

/// Adds a line from the supervisor to the log of a rank, and to the console under -v. Throws
/// Error(resource) when the log cannot be written.
void log_line(const fs::path& run_dir, int rank, const std::string& message);

/// Passes the events of one start to the record of the run, the logs of its ranks and the sinks.
class RunEvents {
 public:
  using OnStarted = std::function<void()>;

  /// `start` and `record` must outlive this object. `on_started` is called once versions and data
  /// are in the record.
  RunEvents(const Start& start, fs::path folder, report::RunRecord& record, OnStarted on_started)
      : start_(start),
        folder_(std::move(folder)),
        record_(record),
        on_started_(std::move(on_started)) {}

  void listen(Sinks sinks) { sinks_ = std::move(sinks); }

  /// Adds the earlier epochs to the record, so that the totals and the best epoch cover the whole
  /// run. The file of the best weights is written again when a better epoch comes.
  void recall_epochs();

  /// Throws Error(data) when a resumed run has other data, and what sinks throw. A full disk only
  /// causes a warning.
  void on_event(int rank, const events::Event& event);

  void on_tick(const Clock& clock);

  [[nodiscard]] const Sinks& sinks() const { return sinks_; }

 private:
  void take(int rank, const events::Event& event);
  void warn(const std::string& message);
  template <class Body>
  void write_if_possible(const Body& body);

  const Start& start_;
  fs::path folder_;
  report::RunRecord& record_;
  OnStarted on_started_;
  Sinks sinks_;
};

}  // namespace trainctl::study
