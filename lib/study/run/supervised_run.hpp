#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "launch/supervise/supervisor.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run_events.hpp"
#include "study/run/run_inputs.hpp"
#include "study/run/run_start.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::study {

class HeadRun;

/// What outlives a start: what decides whether there is another, and the nodes that take part.
struct Course {
  const Attempts& attempts;
  Restarts& restarts;
  HeadRun* nodes = nullptr;  // the others of several
};

/// One start of a run, from its folder to result.json.
class SupervisedRun {
 public:
  /// `start`, `clock` and what `course` names outlive it.
  SupervisedRun(const Start& start, const fs::path& folder, const Course& course,
                const Clock& clock);
  SupervisedRun(const SupervisedRun&) = delete;
  SupervisedRun& operator=(const SupervisedRun&) = delete;

  /// Once. What goes wrong is told by the ending.
  RunOutcome execute(const MakeSinks& make_sinks);

 private:
  [[nodiscard]] bool trains() const;
  template <class Body>
  void keep_failure(const Body& body);
  void write_inputs();
  void write_provisional_result();
  void write_manifest() const;
  void say_what_was();
  void supervise();
  void undo_continuation();
  void end_as(const launch::Outcome& outcome);
  void fail_with(const Error& error);
  void write_result();
  void tell_end();
  [[nodiscard]] Json document() const;

  static constexpr std::uint64_t kResultBytes = 1 << 16;

  const Start& start_;
  HeadRun* nodes_;
  const Attempts& attempts_;
  Restarts& restarts_;
  const Clock& clock_;
  double started_;
  ManifestInput manifest_;
  RunOutcome outcome_;
  RunEvents events_;
  std::optional<ReservedFile> reserved_;
};

}  // namespace trainctl::study
