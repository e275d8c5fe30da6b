#pragma once

#include "engine/setup/run_components.hpp"
#include "engine/tasks/tasks.hpp"
#include "train/measure/resource_counters.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::engine {

/// What a step with so many samples took.
struct StepCost {
  std::int64_t rows = 0;
  std::int64_t batch_bytes = 0;
  std::int64_t activation_bytes = 0;  // the peak beyond all that stays
  /// The same where gradients of the batch before are there in the forward pass, too. It grows with
  /// the rows along a line; without them small batches have their peak where the gradients are.
  std::int64_t stacked_bytes = 0;
  /// What kernels, allocators and gaps of the heap took beyond the tensors; filled by whoever reads
  /// the memory of the process, and extrapolated like the tensors.
  std::int64_t kernel_bytes = 0;
  double seconds = 0;
};

/// Of one sample.
struct SampleFlops {
  std::int64_t forward = 0;
  std::int64_t step = 0;  // forward and backward
};

/// Times of the steps of a batch, as means over the ranks that take them together.
struct TimedStep {
  std::vector<double> rounds;  // seconds of a step: the mean of each round of steps
  double seconds = 0;          // the median of the rounds
  double backward_share = 0;   // of a step: by the host's clock, which does not see a GPU's work
  double exposed_s = 0;        // of a step: what it waits for the exchange of gradients
};

/// What stays from step to step.
struct KeptBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};

/// The run's model, loss and optimizer, and the trainer's own step on made-up batches; it counts
/// each tensor from the first one on. Learns nothing: the rate is 0.
class ModelMeter {
 public:
  /// The ranks of `communicator` exchange gradients as those of a run. Throws what a run would
  /// where model and data do not fit.
  ModelMeter(const TaskSetup& setup, const data::Pipeline& pipeline,
             std::unique_ptr<dist::Communicator> communicator = dist::make_single());

  StepCost step(std::int64_t rows);
  /// With `stacked_bytes`, too.
  StepCost stacked_step(std::int64_t rows);
  /// On the line through two stacked steps.
  [[nodiscard]] StepCost extrapolated(const StepCost& less, const StepCost& more,
                                      std::int64_t rows) const;
  SampleFlops flops(std::int64_t rows);
  /// Times a few rounds of steps, as many on every rank. From here on no memory is counted.
  TimedStep time(std::int64_t rows);

  /// As of the last step.
  [[nodiscard]] const KeptBytes& kept() const { return kept_; }
  [[nodiscard]] const stage::Model& model() const { return *stages_.model; }
  [[nodiscard]] const stage::Catalog& catalog() const { return catalog_; }
  [[nodiscard]] const stage::ModelContext& shape() const { return shape_; }
  /// Copies of weights and state that the optimizer would keep on a GPU so as to leave a step out.
  [[nodiscard]] std::int64_t copies_on_gpu() const;
  /// The most that all tensors have taken at once.
  [[nodiscard]] std::int64_t most_bytes() const { return most_bytes_; }
  /// The most that the allocator of a GPU has held; 0 on a CPU.
  [[nodiscard]] std::int64_t reserved() const { return memory_->reserved(); }

 private:
  /// One batch, or two of which the second finds the gradients of the first; or no update.
  enum class Window { single, stacked, left_open };
  void run(const device::DeviceBatch& batch, Window window);
  void run_one(const train::MicroBatch& micro);
  /// The peak of a step beyond what stays behind it.
  std::int64_t peak_of(const device::DeviceBatch& batch, Window window);
  /// Seconds of a step, the mean of so many and of all ranks.
  double mean_step_s(const train::MicroBatch& micro, std::int64_t steps);

  at::Device device_;
  std::unique_ptr<train::MemoryMeter> memory_;  // before all that it counts
  data::Loader loader_;                         // the session has one; it is never started
  stage::ModelContext shape_;
  stage::Catalog catalog_;
  std::unique_ptr<dist::Communicator> communicator_;  // before the optimizer, which may use it
  RunStages stages_;
  train::Options options_;
  train::Session session_;
  train::PartTimer timer_;
  std::unique_ptr<dist::GradSync> sync_;
  train::StepRunner runner_;
  bool gradients_stay_;  // of a window with accumulation, and those of several ranks in buckets
  bool may_leave_out_;   // the run continues after a step that is not finite
  KeptBytes kept_;
  std::int64_t most_bytes_ = 0;
};

}  // namespace trainctl::engine
