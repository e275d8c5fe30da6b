#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/resource_usage.hpp"
#include "data/core/pipeline.hpp"
#include "data/remote/local_tier.hpp"
#include "engine/resolve/activation_checkpointing.hpp"
#include "engine/resolve/model_meter.hpp"
#include "engine/resolve/step_probe.hpp"
#include "train/measure/backends.hpp"
#include "train/state/weights.hpp"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::engine {
namespace {

constexpr std::int64_t kFewRows = 4;
constexpr double kLongestS = 10;  // seconds, for the step with the full batch
// Activations of so many bytes outweigh what differs by chance between two batches.
constexpr std::int64_t kManyBytes = std::int64_t{64} << 20;

/// Returns VmRSS or VmHWM of this process in bytes; 0 if the kernel does not report it.
std::int64_t resident(std::string_view key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == key && status >> kib) return kib * 1024;
  }
  return 0;
}

/// Resets VmHWM, so that memory left over from small batches does not count for a large one.
void forget_peak() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

/// Returns half of the available memory of the device, because a run may be using the rest.
std::int64_t budget(at::Device device) {
  if (device.is_cuda()) return device::cuda_available_memory(device).value_or(0) / 2;
  return static_cast<std::int64_t>(available_memory() / 2);
}

struct Steps {
  StepCost cost;                       // of the run's batch
  std::vector<std::int64_t> measured;  // batch sizes
};

bool is_cheap(const StepCost& cost, const KeptBytes& kept, std::int64_t bytes, double seconds) {
  const std::int64_t needed =
      kept.weights + kept.gradients + kept.optimizer + cost.batch_bytes + cost.activation_bytes;
  return needed <= bytes && cost.seconds <= seconds;
}

/// Runs steps with several batch sizes, and reads the memory of the process after each.
class StepSeries {
 public:
  /// `before` is the resident memory of the process before a model was built, in bytes.
  StepSeries(ModelMeter& meter, at::Device device, std::int64_t before)
      : meter_(meter), device_(device), before_(before), most_bytes_(budget(device)) {}

  /// Measures the run's own batch if it is cheap, else a small one and its double. While they stay
  /// cheap, these grow until both have many activations: the gradients hide the memory of few.
  Steps measure(std::int64_t batch_size) {
    if (batch_size <= 2 * kFewRows) return {single(batch_size), {batch_size}};
    StepCost less;  // of no rows: twice the rows never cost more than twice as much
    StepCost more = stacked(kFewRows);
    for (;;) {
      const StepCost whole = meter_.extrapolated(less, more, batch_size);
      if (is_cheap(whole, meter_.kept(), most_bytes_, kLongestS))
        return {single(batch_size), {batch_size}};
      const std::int64_t rows = 2 * more.rows;
      const bool grows = less.stacked_bytes < std::max(4 * meter_.kept().gradients, kManyBytes) &&
                         rows < batch_size &&
                         is_cheap(meter_.extrapolated(less, more, rows), meter_.kept(),
                                  most_bytes_ / 4, kLongestS / 4);
      if (less.rows > 0 && !grows) return {whole, {less.rows, more.rows}};
      less = more;
      more = stacked(rows);
    }
  }

 private:
  StepCost single(std::int64_t rows) {
    forget_peak();
    return with_kernels(meter_.step(rows));
  }
  StepCost stacked(std::int64_t rows) {
    forget_peak();
    return with_kernels(meter_.stacked_step(rows));
  }
  /// Batch sizes increase, so the maximum over all tensors belongs to the last batch.
  StepCost with_kernels(StepCost cost) const {
    const std::int64_t taken = device_.is_cuda() ? meter_.reserved() : resident("VmHWM:") - before_;
    cost.kernel_bytes = std::max<std::int64_t>(taken - meter_.most_bytes(), 0);
    return cost;
  }

  ModelMeter& meter_;
  at::Device device_;
  std::int64_t before_;
  std::int64_t most_bytes_;
};

void count_parameters(const stage::Model& model, events::Measured& measured) {
  for (const auto& [name, tensor] : model.parameters()) {
    measured.parameters += tensor.numel();
    if (!tensor.requires_grad()) continue;
    measured.trainable_parameters += tensor.numel();
    measured.parameter_bytes.push_back(static_cast<std::int64_t>(tensor.nbytes()));
  }
}

std::string precision_of(const spec::Trainer& trainer, at::Device device) {
  const bool full = trainer.precision == spec::Precision::full;
  const train::BackendSettings backends =
      train::choose_backends(trainer, train::backend_device(device));
  if (full && device.is_cuda() && backends.fp32_precision == "tf32") return "tf32";
  return enum_names(trainer.precision).at(static_cast<std::size_t>(trainer.precision));
}

/// Returns the bytes that rank 0 copies to the host for a checkpoint.
std::int64_t saved_bytes(const events::Measured& measured,
                         const std::optional<train::Saving>& saving) {
  if (!saving) return 0;
  const std::int64_t weights = measured.weight_bytes + measured.average_bytes;
  return saving->weights_only ? weights : weights + measured.optimizer_bytes + measured.best_bytes;
}

/// Estimates the share of the backward pass in a GPU's step from the operations, because the host's
/// clock does not measure the GPU's work.
double backward_share(const events::Measured& measured) {
  if (measured.step_flops <= 0) return 0;
  return 1 - static_cast<double>(measured.forward_flops) / static_cast<double>(measured.step_flops);
}

/// Times steps like a run, in which all ranks share the cores: the number of threads is chosen for
/// the steps that are timed.
void time_steps(const JobSetup& setup, ModelMeter& meter, events::Measured& measured) {
  const std::int64_t rows = measured.measured_batches.back();
  spec::Experiment experiment = setup.experiment;
  experiment.loader.batch_size = rows;
  const auto alone = dist::make_single();
  const int ranks = spec::placement_of(experiment.trainer, read_machine()).ranks_here;
  measured.num_threads =
      choose_threads({experiment, meter.catalog(), meter.shape(), setup.device, ranks}, *alone)
          .threads;
  const CoreUseMeter others;
  const TimedStep step = meter.time(rows);
  measured.taken_cores = others.taken();
  measured.step_s = step.seconds;
  measured.step_rounds_s = step.rounds;
  measured.backward_s =
      step.seconds * (setup.device.is_cuda() ? backward_share(measured) : step.backward_share);
}

/// `before` is the resident memory of the process before a model was built, in bytes.
events::Measured measured_on(const JobSetup& setup, const data::Pipeline& pipeline,
                             std::int64_t before) {
  const spec::Experiment& experiment = setup.experiment;
  ModelMeter meter(setup, pipeline);
  const std::int64_t batch_size = experiment.loader.batch_size;
  const bool times = spec::kind_called(setup.request.mode) == spec::JobKind::probe;
  const auto [steps, flops] = [&] {
    // cuDNN keeps the kernel that it chose first for a shape, also for the steps that are timed.
    std::optional<train::BenchmarkOff> many_batch_sizes;
    if (!times) many_batch_sizes.emplace();
    Steps taken = StepSeries(meter, setup.device, before).measure(batch_size);
    return std::pair(std::move(taken), meter.flops(std::min(kFewRows, batch_size)));
  }();
  const bool on_gpu = setup.device.is_cuda();

  events::Measured measured;
  measured.device = setup.device.str();
  measured.device_name = device::gpu_info(setup.device).name;
  measured.precision = precision_of(experiment.trainer, setup.device);
  count_parameters(meter.model(), measured);
  measured.weight_bytes = meter.kept().weights;
  measured.gradient_bytes = meter.kept().gradients;
  measured.optimizer_bytes = meter.kept().optimizer;
  measured.average_bytes = train::averaging_of(experiment.trainer) ? measured.weight_bytes : 0;
  if (!on_gpu) measured.gpu_copy_bytes = meter.copies_on_gpu();
  measured.best_bytes = experiment.checkpoint.save_top_k != 0 ? measured.weight_bytes : 0;
  measured.saved_bytes =
      saved_bytes(measured, train::options_from(experiment, setup.device).saving);
  measured.activation_bytes = steps.cost.activation_bytes;
  measured.batch_bytes = steps.cost.batch_bytes;
  measured.kernel_bytes = steps.cost.kernel_bytes;
  // The host memory of CUDA and its libraries, and of the model, which is built on the host first.
  if (on_gpu) {
    ::malloc_trim(0);  // excludes the memory that batches have freed
    measured.process_bytes =
        std::max<std::int64_t>(resident("VmRSS:") - before, 0) + measured.weight_bytes;
  }
  measured.forward_flops = flops.forward;
  measured.step_flops = flops.step;
  measured.batch_size = batch_size;
  measured.measured_batches = steps.measured;
  if (times) time_steps(setup, meter, measured);
  return measured;
}

data::Pipeline training_samples(const spec::Experiment& experiment) {
  data::mount_remote(experiment.dataset);
  const spec::DataSplit& split = experiment.dataset.train;  // no batch transforms
  return in_context("dataset.train", [&] { return data::build_pipeline(split); });
}

}  // namespace

int measure(const JobSetup& setup) {
  spec::Experiment experiment = setup.experiment;
  const std::int64_t process_bytes = resident("VmRSS:");
  if (experiment.trainer.num_threads.value)
    at::set_num_threads(*experiment.trainer.num_threads.value);
  const data::Pipeline pipeline = training_samples(experiment);
  const std::int64_t before = resident("VmRSS:");
  const auto alone = dist::make_single();
  const stage::Catalog catalog = catalog_in_use();
  experiment.trainer.channels_last.value =
      resolve_layout({setup.experiment, catalog, model_context_of(pipeline, setup.experiment.task),
                      setup.device},
                     *alone)
          .channels_last;
  const JobSetup resolved{setup.request, experiment, setup.device, setup.emit};
  const int ranks = spec::placement_of(experiment.trainer, read_machine()).ranks_here;
  const train::RecomputeChoice recompute =
      decide_recompute({.setup = resolved, .train = pipeline, .ranks_here = ranks}, *alone);
  experiment.trainer.activation_checkpointing = mode_of(recompute);
  forget_peak();
  events::Measured measured = measured_on(resolved, pipeline, before);
  measured.recomputes = recompute.recomputes;
  measured.recomputes_why = recompute.why;
  measured.process_bytes += process_bytes;
  setup.emit(measured);
  setup.emit(events::Finished{0, 0, {}, {}, "measured"});
  return 0;
}

namespace {

events::Measured described(const JobSetup& setup, const TimedStep& step, int num_threads) {
  events::Measured measured;
  measured.device = setup.device.str();
  measured.batch_size = setup.experiment.loader.batch_size;
  measured.measured_batches = {measured.batch_size};
  measured.ranks = setup.request.world_size;
  measured.num_threads = num_threads;
  measured.step_s = step.seconds;
  measured.step_rounds_s = step.rounds;
  measured.exposed_s = step.exposed_s;
  measured.backward_s = step.seconds * step.backward_share;
  return measured;
}

}  // namespace

int measure_shared_steps(const JobSetup& setup) {
  spec::Experiment experiment = setup.experiment;
  const data::Pipeline pipeline = training_samples(experiment);
  auto communicator =
      build_communicator(setup.request, experiment.distributed, setup.device, nullptr);
  const stage::Catalog catalog = catalog_in_use();
  const ProbeContext probe{experiment, catalog, model_context_of(pipeline, experiment.task),
                           setup.device, setup.request.local_world_size};
  const train::ThreadChoice threads = choose_threads(probe, *communicator);
  experiment.trainer.channels_last.value = resolve_layout(probe, *communicator).channels_last;
  const JobSetup resolved{setup.request, experiment, setup.device, setup.emit};
  ModelMeter meter(resolved, pipeline, std::move(communicator));
  const CoreUseMeter others;
  const TimedStep step = meter.time(experiment.loader.batch_size);
  if (setup.request.rank == 0) {
    events::Measured measured = described(resolved, step, threads.threads);
    measured.taken_cores = others.taken();
    setup.emit(measured);
  }
  meter.shutdown();
  setup.emit(events::Finished{0, 0, {}, {}, "measured"});
  return 0;
}

}  // namespace trainctl::engine
