#pragma once

#include "engine/entry.h"
#include "engine/resolve/loader_workers.hpp"
#include "spec/experiment/job.hpp"
#include "train/debug/memory_report.hpp"
#include "train/loop/evaluator.hpp"
#include "train/measure/backends.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::train {
class TrainLoop;
}

namespace trainctl::engine {

/// Runs one rank, from reading its run folder to the last event.
class Worker {
 public:
  Worker(const TrainctlEngineRequest& request, events::Heartbeat* heartbeat, train::EventSink emit);

  /// Runs the request's mode. Returns the exit code: 0, or that of the signal that requested a
  /// stop.
  int run();
  /// Returns the progress for the report of a failure.
  [[nodiscard]] events::Failed failure_at() const;

 private:
  struct Setup {
    spec::Experiment experiment;
    at::Device device = at::kCPU;
    train::BackendSettings backends = {};
  };

  int run_training();
  int run_evaluation();                   // defined in evaluate.cpp
  int run_on_device(spec::JobKind kind);  // without an experiment
  int run_job(spec::JobKind kind);
  /// Does the first steps of every job: reads the experiment, chooses the device and emits Hello.
  Setup set_up();
  /// The end of a training whose weights are tested.
  struct TestSetup {
    train::TrainLoop& loop;
    const train::Session& session;
    const LoadingContext& batches;
    const data::LoadingChoice& loading;
    const Setup& place;
  };
  /// Evaluates dataset.test with the best weights of the run (trainer.test) and reports the
  /// metrics, unless the run is to be resumed. A signal cancels the test, which is then only
  /// reported. Defined in evaluate.cpp.
  void test_weights(const TestSetup& setup, const std::string& stop_reason);
  /// Returns a callback that reports progress after each batch of an evaluation and stops all ranks
  /// together. Without the epoch of a training, the batches count as steps.
  train::Evaluator::Watch watch_batches(dist::Communicator& communicator, const Setup& place,
                                        std::int64_t batches,
                                        std::optional<std::int64_t> epoch = {});
  [[nodiscard]] int exit_code_for(const events::Finished& finished) const;
  [[nodiscard]] bool interrupted() const;
  /// If the job names a checkpoint, resumes from it and reports that.
  void resume_or_start(train::TrainLoop& loop, const train::Session& session,
                       const spec::Experiment& experiment);
  void enter(events::Phase phase);
  /// A training loop with the values for the report of its failure.
  struct Training {
    train::TrainLoop& loop;
    const train::Options& options;
    stage::Model& model;
    const stage::ModelContext& shape;
    std::int64_t batch_size = 0;
  };
  /// Runs the loop and drops its CUDA graph. If it fails, saves the weights if possible, and keeps
  /// phase and step.
  events::Finished run_to_end(const Training& training);
  static std::vector<train::LayerOutput> largest_activations(const Training& training,
                                                             const train::MemoryUse& use) noexcept;

  const TrainctlEngineRequest& request_;
  events::Heartbeat* heartbeat_;
  train::EventSink emit_;
  events::Phase phase_ = events::Phase::startup;
  std::int64_t global_step_ = 0;
};

}  // namespace trainctl::engine
