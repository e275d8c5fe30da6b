#pragma once

#include "engine/entry.h"
#include "events/heartbeat.hpp"
#include "train/session.hpp"

#include <cstdint>

namespace trainctl::train {
class Trainer;
}

namespace trainctl::engine {

/// One rank from its run folder to its last event.
class Worker {
 public:
  Worker(const TrainctlEngineRequest& request, events::Heartbeat* heartbeat, train::EventSink emit);

  /// Trains. Returns the exit code: 0, or the one of the signal that asked for the end.
  int run();
  /// How far it came: for the report of a failure.
  [[nodiscard]] events::Failed failure_at() const;

 private:
  void enter(events::Phase phase);
  /// Runs the trainer; where it fails, saves what can be saved and remembers how far it came.
  events::Finished run_to_end(train::Trainer& trainer);

  const TrainctlEngineRequest& request_;
  events::Heartbeat* heartbeat_;
  train::EventSink emit_;
  events::Phase phase_ = events::Phase::startup;
  std::int64_t global_step_ = 0;
};

}  // namespace trainctl::engine
