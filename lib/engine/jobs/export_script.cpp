#include "base/files.hpp"
#include "engine/failure.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/jobs/quantize.hpp"
#include "engine/quantize/model_trace.hpp"
#include "engine/resolve/step_probe.hpp"
#include "engine/setup/run_components.hpp"
#include "train/state/weights.hpp"

#include <ATen/ops/allclose.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>
#include <string>

namespace trainctl::engine {
namespace {

namespace jit = torch::jit;

/// Compares the outputs for batch sizes that were not traced.
void check_script(stage::Model& model, const stage::ModelContext& shape, jit::Module script) {
  for (const std::int64_t rows : {1, 2, 5}) {
    const at::Tensor inputs = made_up_batch(shape, rows, at::kCPU).inputs;
    const at::Tensor expected = model.forward(inputs);
    const at::Tensor found = script.forward({inputs}).toTensor();
    if (found.sizes() != expected.sizes() ||
        !at::allclose(found, expected, /*rtol=*/1e-4, /*atol=*/1e-5, /*equal_nan=*/true))
      refuse_script(fmt::format(
          "for batch size {} the exported program computes other outputs than the model", rows));
  }
}

std::string checked_script(stage::Model& model, const stage::ModelContext& shape) {
  try {
    const at::NoGradGuard guard;
    std::string bytes = script_of(trace_model(model, shape, InPlace::kept));
    std::istringstream written(bytes);
    check_script(model, shape, jit::load(written, at::kCPU));
    return bytes;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_script(cause_of(error));
  }
}

std::string int8_script(stage::Model& model, const stage::ModelContext& shape,
                        const stage::Catalog& catalog, const JobSetup& setup,
                        const spec::Job& job) {
  spec::Experiment experiment = setup.experiment;
  experiment.trainer.precision = spec::Precision::full;
  const auto communicator =
      build_communicator(setup.request, experiment.distributed, at::kCPU, /*heartbeat=*/nullptr);
  const ProbeContext run{
      .experiment = experiment, .catalog = catalog, .model = shape, .trains = false};
  return quantize_model(model, run, job, *communicator).script;
}

}  // namespace

int export_script(const JobSetup& setup) {
  const std::filesystem::path run_dir = setup.request.run_dir;
  const spec::Job job = spec::read_job(run_dir);
  const stage::ModelContext shape = model_context(setup.experiment, job);
  at::manual_seed(setup.experiment.seed);
  const stage::Catalog catalog = catalog_in_use();
  const auto model = catalog.models.build(setup.experiment.model, shape);
  model->to(at::kCPU);
  events::WeightsSet loaded;
  train::load_weights(*model, job.weights, {.whole = true}, loaded);
  write_atomically(run_dir / spec::kScriptFile,
                   job.quantize ? int8_script(*model, shape, catalog, setup, job)
                                : checked_script(*model, shape));
  setup.emit(events::Finished{0, 0, {}, {}, "exported"});
  return 0;
}

}  // namespace trainctl::engine
