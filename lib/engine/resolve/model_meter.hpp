#pragma once

#include "engine/jobs/jobs.hpp"
#include "engine/setup/run_components.hpp"
#include "train/measure/resource_counters.hpp"
#include "train/step/step_runner.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::engine {

/// The cost of a step with a number of samples.
struct StepCost {
  std::int64_t rows = 0;
  std::int64_t batch_bytes = 0;
  std::int64_t activation_bytes = 0;  // peak beyond the permanent allocations
  /// The same if gradients of the previous batch exist during the forward pass. It is linear in the
  /// rows; without them the peak of small batches is where the gradients are allocated.
  std::int64_t stacked_bytes = 0;
  /// Memory of kernels, allocators and heap fragmentation beyond the tensors. The caller that reads
  /// the process's memory sets it; it is extrapolated like the tensors.
  std::int64_t kernel_bytes = 0;
  double seconds = 0;
};

/// Floating-point operations of one sample.
struct SampleFlops {
  std::int64_t forward = 0;
  std::int64_t step = 0;  // forward and backward
};

/// Times of the steps of a batch, as means over the ranks that run them together.
struct TimedStep {
  std::vector<double> rounds;  // seconds of a step: the mean of each round
  double seconds = 0;          // the median of the rounds
  double backward_share = 0;   // share of the backward pass in a step by the host's clock, which
                               // does not measure a GPU's work
  double exposed_s = 0;        // seconds per step that wait for the gradient all-reduce
};

/// Memory that is allocated permanently.
struct KeptBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};

/// Runs the trainer's steps with the run's model, loss and optimizer on random batches, and counts
/// every tensor from the first one on. The learning rate is 0, so nothing is learned.
class ModelMeter {
 public:
  /// The ranks of `communicator` synchronize gradients as in a run. Throws like a run if model and
  /// data do not fit.
  ModelMeter(const JobSetup& setup, const data::Pipeline& pipeline,
             std::unique_ptr<dist::Communicator> communicator = dist::make_single());

  /// Runs steps with `rows` samples and returns the cost of a step.
  StepCost step(std::int64_t rows);
  /// Sets `stacked_bytes`, too.
  StepCost stacked_step(std::int64_t rows);
  /// Extrapolates linearly from two stacked steps.
  [[nodiscard]] StepCost extrapolated(const StepCost& less, const StepCost& more,
                                      std::int64_t rows) const;
  /// Counts the operations per sample in a batch of `rows` samples.
  SampleFlops flops(std::int64_t rows);
  /// Times a few rounds of steps, the same number on every rank. Memory is not counted from then
  /// on.
  TimedStep time(std::int64_t rows);

  /// Returns the permanent memory as of the last step.
  [[nodiscard]] const KeptBytes& kept() const { return kept_; }
  [[nodiscard]] const stage::Model& model() const { return *stages_.model; }
  [[nodiscard]] const stage::Catalog& catalog() const { return catalog_; }
  [[nodiscard]] const stage::ModelContext& shape() const { return shape_; }
  /// Returns the bytes of the copies of weights and state that the optimizer would keep on a GPU to
  /// skip a step.
  [[nodiscard]] std::int64_t copies_on_gpu() const;
  /// Returns the maximum bytes of all tensors together.
  [[nodiscard]] std::int64_t most_bytes() const { return most_bytes_; }
  /// Returns the maximum bytes that a GPU's allocator has reserved; 0 on a CPU.
  [[nodiscard]] std::int64_t reserved() const { return memory_->reserved(); }
  /// Ends the group of ranks after the last measurement; all ranks must call it.
  void shutdown() {
    runner_.drop_graph();
    communicator_->shutdown();
  }

 private:
  /// single: one batch; stacked: two, where the second runs with the gradients of the first;
  /// left_open: one batch without an update.
  enum class Window { single, stacked, left_open };
  void run(const device::DeviceBatch& batch, Window window);
  void run_one(const train::MicroBatch& micro);
  /// Returns the peak of a step beyond the memory that remains allocated afterward.
  std::int64_t peak_of(const device::DeviceBatch& batch, Window window);
  /// Returns the mean seconds of a step over `steps` steps and all ranks.
  double mean_step_s(const train::MicroBatch& micro, std::int64_t steps);

  at::Device device_;
  std::unique_ptr<train::MemoryMeter> memory_;  // constructed before everything that it counts
  data::Loader loader_;                         // required by the session, but never started
  stage::ModelContext shape_;
  stage::Catalog catalog_;
  std::unique_ptr<dist::Communicator> communicator_;  // before the optimizer, which may use it
  RunStages stages_;
  train::Options options_;
  train::Session session_;
  train::PartTimer timer_;
  std::unique_ptr<dist::GradSync> sync_;
  train::StepRunner runner_;
  bool gradients_stay_;     // gradients outlive the step: with accumulation, or in the buckets of
                            // several ranks
  bool may_leave_out_;      // the run continues after a non-finite step
  bool has_state_ = false;  // the optimizer has allocated its state
  KeptBytes kept_;
  std::int64_t most_bytes_ = 0;
};

}  // namespace trainctl::engine
