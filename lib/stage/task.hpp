#pragma once

#include "config/schema/schema.hpp"
#include "device/batch.hpp"
#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace trainctl::stage {

/// The samples of a batch, for a task that draws random numbers: they must depend on the seed, the
/// epoch and the sample only, so that resumed runs and other numbers of ranks draw the same.
struct BatchSamples {
  std::int64_t epoch = 0;
  std::vector<std::int64_t> indices;  // in the data set, one for each row of the inputs
};

/// What the trainer lends a task for one batch.
class StepTools {
 public:
  virtual ~StepTools() = default;
  /// Returns whether the batch is trained on, or only evaluated without gradients.
  [[nodiscard]] virtual RunMode mode() const = 0;
  /// Runs the model in the precision and memory format of the run. Call it once for each batch,
  /// since all ranks must run the same collectives.
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  /// Runs another model in the same way, without gradients.
  virtual at::Tensor forward_frozen(Model& other, const at::Tensor& inputs) = 0;
  /// Runs a model that the task itself trains in the same way, with gradients.
  virtual at::Tensor forward_trained(Model& other, const at::Tensor& inputs) = 0;
  /// Replaces gradients of means over the valid rows of this batch by those of means over the
  /// batches of all ranks. All ranks must call it.
  virtual void average(std::vector<at::Tensor>& /*gradients*/) {}
  /// Computes the loss of the experiment. `factor` is the derivative of the task's loss with
  /// respect to it: a task that returns half of this loss passes 0.5, and multiplies the value
  /// itself.
  virtual LossValue loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                         double factor = 1) = 0;
  /// Returns which samples the batch contains. Reads the host's memory only.
  virtual BatchSamples samples(const device::DeviceBatch& batch) = 0;
};

/// The results of a batch.
struct TaskResult {
  at::Tensor outputs;         // for the metrics, and for predictions
  device::DeviceBatch batch;  // with the targets that the loss and the metrics compare them with
  LossValue loss;
};

/// A model that the task trains in addition to that of the run. Checkpoints contain both parts.
struct TrainedModel {
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
};

/// What a training step computes. This class is the task of supervised learning: the loss compares
/// the model's outputs with the targets of the data set.
class Task {
 public:
  virtual ~Task() = default;
  /// Computes outputs and loss of a batch; the trainer then runs the backward pass and the
  /// optimizer. Evaluations call it, too.
  /// A replayed CUDA graph does not call it: see spec::capture_obstacle().
  virtual TaskResult step(const device::DeviceBatch& batch, StepTools& tools);
  /// Returns the model that the task itself trains; null if it trains none.
  [[nodiscard]] virtual const TrainedModel* trained() const { return nullptr; }
  /// Makes images with the model, float32 [N, C, H, W] with the values of the inputs, which show
  /// what it has learned. Returns an undefined tensor if the model does not make images.
  virtual at::Tensor samples(StepTools& /*tools*/) { return {}; }
  /// Returns the predicted and the actual class of each pixel, int64 [N, 2, H, W], which the report
  /// draws. Returns an undefined tensor if the model does not predict the classes of pixels.
  [[nodiscard]] virtual at::Tensor masks(const TaskResult& /*result*/) const { return {}; }
};

/// Returns a task of supervised learning.
Task& supervised_task();

struct TaskContext {
  ModelContext model;  // of the run's model: as the task's options have changed that of the data
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;
  bool trains = true;  // false: the task only evaluates, without the files that training needs
  /// Builds a model for the same samples, with the weights of a file, in evaluation mode and
  /// without gradients. Only a constructor may call it.
  std::function<std::unique_ptr<Model>(const config::Stage& model,
                                       const std::filesystem::path& weights)>
      build_frozen = {};
  /// Builds a model that the task trains, with its optimizer. Only a constructor may call it.
  std::function<TrainedModel(const config::Stage& model, const ModelContext& samples,
                             const config::Stage& optimizer)>
      build_trained = {};
};

}  // namespace trainctl::stage
