#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"
#include "train/measure/phase_timer.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trainctl::train {

/// Runs the steps of full batches on a GPU: the first few eagerly, then one is captured as a CUDA
/// graph, which later steps replay. A step runs eagerly if its batch is at another address, or if
/// the capture failed and the run may continue.
class CapturedStep {
 public:
  /// What happens if a step cannot be captured: a warning, or Error(config).
  enum class OnCaptureFailure { warn, fail };
  CapturedStep(std::unique_ptr<device::StepGraph> graph, PartTimer& timer, EventSink emit,
               OnCaptureFailure on_failure = OnCaptureFailure::warn);

  using Step = std::function<void()>;
  static constexpr int kWarmUps = 3;
  /// Runs `step`, which may read the batch and nothing else on the host that changes from step to
  /// step. Returns whether it ran eagerly or was replayed; a replayed step runs no host code.
  enum class Execution { eager, replayed };
  Execution take(const device::DeviceBatch& batch, const Step& step);
  /// Frees the graph's memory; every later step runs eagerly.
  void drop() { graph_.reset(); }

 private:
  /// The addresses of the tensors of a batch; null for an undefined tensor.
  using Places = std::array<const void*, 4>;
  static Places places_of(const device::DeviceBatch& batch);
  [[nodiscard]] bool record(const Step& step);

  std::unique_ptr<device::StepGraph> graph_;  // null: the capture failed
  PartTimer& timer_;
  EventSink emit_;
  OnCaptureFailure on_failure_;
  int warm_ups_ = 0;
  std::optional<Places> recorded_;
};

/// Returns null if every step runs eagerly, and emits the reason if the user did not disable graphs
/// on a GPU. Throws Error(config) if trainer.cuda_graphs is true but impossible; obstacles that
/// only the capture detects make take() throw.
std::unique_ptr<CapturedStep> make_captured_step(const Session& session, const Options& options,
                                                 PartTimer& timer);

/// Returns whether make_captured_step() will return non-null, as far as it is known before a
/// capture.
bool records_steps(const Session& session, const Options& options);

/// Returns why the steps of a run cannot be captured; nullopt if they can.
std::optional<std::string> capture_obstacle(const Session& session, const Options& options);

}  // namespace trainctl::train
