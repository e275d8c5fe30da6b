#include "engine/jobs/quantize.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "data/core/run_control.hpp"
#include "engine/quantize/quantizer.hpp"
#include "engine/resolve/loader_workers.hpp"
#include "train/loop/evaluator.hpp"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace trainctl::engine {
namespace {

/// A model without parameters whose forward pass is a function.
class FunctionModel final : public stage::Model {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor& inputs)>;
  explicit FunctionModel(Forward forward) : forward_(std::move(forward)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return forward_(inputs); }
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override { return {}; }
  void set_mode(stage::RunMode /*mode*/) override {}
  void to(at::Device /*device*/) override {}

 private:
  Forward forward_;
};

/// Shows the activations of training batches to the quantizer. Returns the number of batches.
std::int64_t calibrate(Quantizer& quantizer, const ProbeContext& run, const spec::Job& job,
                       dist::Communicator& communicator) {
  spec::Job training = job;
  training.split = "train";
  const RunData data = open_split(run.experiment, training, {});
  const LoadingContext batches{run, data};
  const RunLoaders loaders = build_loaders(batches, choose_loading(batches, communicator));
  const auto loss = run.catalog.losses.build(
      run.experiment.loss, {run.model.outputs, run.device, run.model.kind.targets});
  std::vector<std::unique_ptr<stage::Metric>> no_metrics;
  std::int64_t done = 0;
  FunctionModel watched([&](const at::Tensor& inputs) { return quantizer.calibrate(inputs); });
  train::Evaluator evaluator({.model = watched,
                              .loss = *loss,
                              .metrics = no_metrics,
                              .loader = *loaders.train,
                              .split = "train",
                              .batch_size = run.experiment.loader.batch_size,
                              .communicator = communicator,
                              .labeled = false},
                             train::options_from(run.experiment, run.device));
  evaluator.run(job.quantize->calibrate, [&](std::int64_t batch) {
    data::throw_if_stopped();
    done = batch + 1;
    return true;
  });
  return done;
}

/// A script that was traced with one batch size must accept others.
void check_shapes(stage::Model& model, stage::Model& int8, const stage::ModelContext& shape) {
  const at::NoGradGuard guard;
  for (const std::int64_t rows : {1, 5}) {
    const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
    ENSURE(config, int8.forward(inputs).sizes() == model.forward(inputs).sizes(),
           "cannot quantize the model: for batch size {} the outputs have another shape", rows);
  }
}

}  // namespace

std::unique_ptr<stage::Model> script_model(const std::string& script) {
  std::istringstream file(script);
  return std::make_unique<FunctionModel>(
      [module = torch::jit::load(file, at::kCPU)](const at::Tensor& inputs) mutable {
        return module.forward({inputs}).toTensor();
      });
}

Int8Model quantize_model(stage::Model& model, const ProbeContext& run, const spec::Job& job,
                         dist::Communicator& communicator) {
  ASSERT(run.device.is_cpu() && job.quantize);
  Quantizer quantizer(model, run.model, job.quantize->observer);
  Int8Model done{.layers = quantizer.weights()};
  if (quantizer.needs_calibration()) done.batches = calibrate(quantizer, run, job, communicator);
  done.script = quantizer.script();
  check_shapes(model, *script_model(done.script), run.model);
  return done;
}

ForwardSpeeds compare_speeds(stage::Model& float32, stage::Model& int8,
                             const stage::ModelContext& shape, std::int64_t rows,
                             const train::ForwardOptions& options) {
  constexpr int kTurns = 5;
  constexpr double kLeast_s = 0.2;  // of a turn
  constexpr int kWarmUp = 3;        // the first calls of a script compile it
  const c10::InferenceMode guard;
  const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
  const Clock& clock = steady_clock();
  const auto speed = [&](stage::Model& model) {
    const double begun = clock.now();
    double seconds = 0;
    std::int64_t samples = 0;
    do {
      train::forward(model, inputs, options);
      samples += rows;
      seconds = clock.now() - begun;
    } while (seconds < kLeast_s);
    return static_cast<double>(samples) / seconds;
  };
  for (int i = 0; i < kWarmUp; ++i) {
    train::forward(float32, inputs, options);
    train::forward(int8, inputs, options);
  }
  std::vector<double> of_float32;
  std::vector<double> of_int8;
  for (int i = 0; i < kTurns; ++i) {
    of_float32.push_back(speed(float32));
    of_int8.push_back(speed(int8));
  }
  return {median(of_float32), median(of_int8)};
}

}  // namespace trainctl::engine
