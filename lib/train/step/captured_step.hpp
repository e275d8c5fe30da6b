#pragma once

#include "train/loop/options.hpp"
#include "train/loop/session.hpp"
#include "train/measure/phase_timer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::train {

/// One batch of an optimizer step. With gradient accumulation several batches form a window, and
/// their gradients add up to those of one large batch.
struct MicroBatch {
  const device::DeviceBatch& batch;
  std::int64_t window_rows = 0;  // rows of the whole window over all ranks
  bool opens = true;
  bool closes = true;
  bool logs = false;                    // this step is logged
  const data::Batch* loaded = nullptr;  // as the loader made it; null: its samples are made up
};

/// Runs the windows of full batches on a GPU: the first few eagerly, then each kind of batch (the
/// first, the middle and the last one of a window, or the only one) is captured as a CUDA graph,
/// which later windows replay. A window runs eagerly if it differs from the others, from a batch on
/// that is at another address, or if the capture failed and the run may continue. All ranks capture
/// the same batches: if one of them fails, all continue eagerly.
class CapturedStep {
 public:
  /// What happens if a batch cannot be captured: a warning, or an error: the one of the capture if
  /// it ran out of memory, else Error(config).
  enum class OnCaptureFailure { warn, fail };
  struct Setup {
    std::unique_ptr<device::StepGraph> graph;  // null: every window runs eagerly
    PartTimer& timer;
    EventSink emit;
    dist::Communicator& communicator;
    std::vector<at::Tensor> parameters = {};  // those whose gradients a window adds up
    OnCaptureFailure on_failure = OnCaptureFailure::warn;
    std::int64_t eager_windows = 0;  // before the first one that may be captured
  };
  explicit CapturedStep(Setup setup) : setup_(std::move(setup)) {}

  /// Whether a window is like the one that is captured. Equal for all batches of a window, and on
  /// all ranks.
  enum class Window { usual, other };
  using Step = std::function<void()>;
  static constexpr int kWarmUps = 3;  // windows
  /// Runs `step`, which may read the batch and nothing else on the host that changes from window to
  /// window. Returns whether it ran eagerly or was replayed; a replayed step runs no host code.
  enum class Execution { eager, replayed };
  Execution take(const MicroBatch& micro, Window window, const Step& step);
  /// Frees the memory of the graphs; every later window runs eagerly.
  void drop();

 private:
  enum class Mode { eager, warms_up, captured };
  /// The addresses of the tensors of a batch; null for an undefined tensor.
  using Addresses = std::array<const void*, 4>;
  struct Recorded {
    std::size_t graph = 0;
    Addresses addresses{};
  };
  static Addresses addresses_of(const device::DeviceBatch& batch);
  [[nodiscard]] Mode mode_of(Window window) const;
  [[nodiscard]] bool record(const MicroBatch& micro, const Step& step);
  void replay(const MicroBatch& micro, const Recorded& recorded);
  void use_recorded_gradients();

  Setup setup_;
  Mode mode_ = Mode::eager;  // of the current window
  std::int64_t windows_ = 0;
  int warm_ups_ = 0;
  std::array<std::optional<Recorded>, 4> recorded_;  // by kind of batch
  std::vector<at::Tensor> gradients_;                // those that the graphs add up, by parameter
  bool uses_recorded_ = false;                       // whether the parameters hold these gradients
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
