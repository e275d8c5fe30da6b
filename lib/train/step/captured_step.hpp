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

/// Takes the steps of whole batches on a GPU: a few as they are, then one is recorded as a graph
/// that the others repeat. Where its batch lies elsewhere, or it could not be recorded and the run
/// may go on, a step is taken operation by operation.
class CapturedStep {
 public:
  /// What a step that cannot be recorded after all leads to: a warning, or Error(config).
  enum class Refused { is_told, ends_run };
  CapturedStep(std::unique_ptr<device::StepGraph> graph, PartTimer& timer, EventSink tell,
               Refused refused = Refused::is_told);

  using Step = std::function<void()>;
  static constexpr int kWarmUps = 3;
  /// `step` reads the batch, and nothing else that changes from step to step on the host.
  /// Returns how it was taken: a step that is repeated does nothing on the host.
  enum class Taken { as_it_is, repeated };
  Taken take(const device::DeviceBatch& batch, const Step& step);
  /// Gives its memory back; every later step is taken operation by operation.
  void drop() { graph_.reset(); }

 private:
  /// Where the tensors of a batch lie; null where there is none.
  using Places = std::array<const void*, 4>;
  static Places places_of(const device::DeviceBatch& batch);
  [[nodiscard]] bool record(const Step& step);

  std::unique_ptr<device::StepGraph> graph_;  // null: it could not be recorded
  PartTimer& timer_;
  EventSink tell_;
  Refused refused_;
  int warm_ups_ = 0;
  std::optional<Places> recorded_;
};

/// Null where every step is taken operation by operation; a GPU that was not told to do so says
/// why. Throws Error(config) where trainer.cuda_graphs is true and cannot be had; what only the
/// recording itself finds out, take() throws then.
std::unique_ptr<CapturedStep> make_captured_step(const Session& session, const Options& options,
                                                 PartTimer& timer);

/// Whether make_captured_step() is going to make one, as far as can be told before it is tried.
bool records_steps(const Session& session, const Options& options);

/// Why the steps of a run cannot be recorded; nothing: they can.
std::optional<std::string> capture_obstacle(const Session& session, const Options& options);

}  // namespace trainctl::train
