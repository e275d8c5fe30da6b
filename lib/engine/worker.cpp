#include "engine/worker.hpp"

#include "base/files.hpp"
#include "base/machine/allocator.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/random.hpp"
#include "checkpoint/verify.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/run_control.hpp"
#include "engine/failure.hpp"
#include "engine/resolve/activation_checkpointing.hpp"
#include "engine/setup/provenance.hpp"
#include "events/pipe.hpp"
#include "spec/load.hpp"
#include "train/loop/train_loop.hpp"
#include "train/step/captured_step.hpp"

#include <ATen/Context.h>
#include <torch/version.h>
#include <unistd.h>

#include <csignal>

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

/// A batch size above the number of samples gives one short batch, so the memory for more is not
/// allocated.
void fit_batch(spec::Experiment& experiment, std::int64_t samples, int ranks) {
  spec::Loader& loader = experiment.loader;
  if (!loader.drop_last && !loader.sampler)
    loader.batch_size = spec::rows_of_batch(loader.batch_size, samples, ranks);
}

/// Returns the devices that share each batch, for all of which the loader then makes one batch.
std::vector<at::Device> devices_of_model(spec::Experiment& experiment, at::Device device,
                                         int world_size) {
  std::vector<at::Device> devices = data_parallel_devices(experiment, device, world_size);
  spec::Loader& loader = experiment.loader;
  loader.batch_size = loader.batch_size * static_cast<std::int64_t>(devices.size());
  return devices;
}

/// The supervisor has chosen the number of ranks for the accelerator that it found, so a worker
/// must not train on another one.
spec::Accelerator accelerator_for(const TrainctlEngineRequest& request,
                                  const spec::Experiment& experiment) {
  if (request.accelerator == nullptr) return experiment.trainer.accelerator;
  return std::string_view(request.accelerator) == "gpu" ? spec::Accelerator::gpu
                                                        : spec::Accelerator::cpu;
}

events::Hello hello(int rank, at::Device device) {
  const auto process = read_process_stat(::getpid());
  return {rank,
          getpid(),
          read_machine().host,
          device.str(),
          process ? process->age_s() : 0,
          {{"torch", TORCH_VERSION}},
          loaded_allocator()};
}

/// The dynamic linker skips a library that it cannot preload, and only logs a line.
void check_allocator(spec::Allocator asked) {
  const std::string name = enum_names(asked)[static_cast<std::size_t>(asked)];
  const std::string loaded = loaded_allocator();
  ENSURE(resource, asked == spec::Allocator::system || loaded == name,
         "trainer.allocator is {}, but the allocator {} is loaded\nhint: find the cause at the "
         "start of this rank's log, or set trainer.allocator=system",
         name, loaded);
}

/// Reports once that libtorch's own operations replace the kernels of this build.
void report_kernels(const TrainctlEngineRequest& request, at::Device device,
                    const train::EventSink& emit) {
  const std::string obstacle = device::kernel_obstacle(device);
  if (request.rank != 0 || obstacle.empty()) return;
  emit(events::Warning{
      obstacle + ", so libtorch's operations replace them: steps take a little longer, and "
                 "dataset.cache cannot use the GPU's memory",
      {}});
}

/// Only convolutions use kernels that cuDNN measures; their weights have at least 3 dimensions.
void require_convolutions(const stage::Model& model, train::BackendSettings& backends) {
  if (!backends.benchmark) return;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.dim() >= 3) return;
  }
  at::globalContext().setBenchmarkCuDNN(false);
  backends.benchmark = false;
  backends.benchmark_why = "the model has no convolutions";
}

/// Lists the samples of train, val and test in the run folder, if dataset.split divides them.
void write_split(const TrainctlEngineRequest& request, const spec::Experiment& experiment) {
  if (request.rank != 0 || !experiment.dataset.train.part) return;
  write_atomically(fs::path(request.run_dir) / spec::kSplitFile,
                   to_line(data::split_document(experiment.dataset.train)) + "\n");
}

/// Returns the choices of the run that this run resumes, if there is one.
EarlierChoices choices_before(const fs::path& run_dir) {
  const spec::Job job = spec::read_job(run_dir);
  if (job.resume.empty()) return {};
  return in_context("--resume", [&] {
    const checkpoint::Manifest saved = checkpoint::read_manifest(job.resume);
    return EarlierChoices{threads_of(saved), threads_taken_of(saved), channels_last_of(saved)};
  });
}

std::uint64_t ring_bytes(const RunLoaders& loaders) {
  const std::uint64_t validation = loaders.validation ? loaders.validation->memory().size() : 0;
  return loaders.train->memory().size() + validation;
}

/// Returns the memory in use: of the GPU if the model is there, else of the process.
double memory_mb(at::Device device) {
  return device::cuda_memory_mb(device).value_or(device::rss_mb());
}

/// A started run and the values that replaced `auto`.
struct StartedRun {
  const spec::Experiment& experiment;
  const RunData& data;
  const RunLoaders& loaders;
  const stage::Model& model;
  const spec::RunLength& schedule;
  int world_size = 1;
  const train::ThreadChoice& threads;
  const train::LayoutChoice& layout;
  const data::LoadingChoice& loading;
  const train::RecomputeChoice& recompute;
  const train::BackendSettings& backends;
  bool captures_steps = false;
};

events::RunStarted describe(const StartedRun& run, const std::string& monitor) {
  const spec::Experiment& experiment = run.experiment;
  events::RunStarted started;
  for (const auto& [name, tensor] : run.model.parameters()) {
    started.parameters += tensor.numel();
    if (tensor.requires_grad()) started.trainable_parameters += tensor.numel();
  }
  started.train_samples = run.loaders.train->samples();
  started.val_samples = run.loaders.validation ? run.loaders.validation->samples() : 0;
  started.steps_per_epoch = run.loaders.train->batches_per_epoch();
  started.task =
      spec::task_name(experiment.task, run.data.model_context(experiment.task).kind.targets);
  started.precision = enum_names(
      experiment.trainer.precision)[static_cast<std::size_t>(experiment.trainer.precision)];
  if (run.loaders.train->held())
    started.no_data_digest = "the images are on the GPU; 'trainctl data hash' prints the digest";
  started.data_fingerprints = run.data.fingerprints;
  started.max_epochs = experiment.trainer.fast_dev_run ? 1 : run.schedule.epochs;
  started.world_size = run.world_size;
  started.global_batch = experiment.loader.batch_size * run.world_size;
  started.monitor = monitor;
  started.channels_last = run.layout.channels_last;
  started.channels_last_why = run.layout.why;
  started.num_threads = run.threads.threads;
  started.num_threads_why = run.threads.why;
  started.num_threads_taken = run.threads.taken;
  started.num_workers = run.loading.num_workers;
  started.prefetch_factor = run.loading.prefetch_factor;
  started.num_workers_why = run.loading.why;
  started.num_workers_taken = run.loading.taken;
  started.recomputes = run.recompute.recomputes;
  started.recomputes_why = run.recompute.why;
  started.captures_steps = run.captures_steps;
  started.fp32_precision = run.backends.fp32_precision;
  started.fp32_precision_why = run.backends.fp32_precision_why;
  started.benchmark = run.backends.benchmark;
  started.benchmark_why = run.backends.benchmark_why;
  return started;
}

void emit_start(const events::RunStarted& started, const train::EventSink& emit) {
  emit(started);
  if (const auto warning = contention_warning(started)) emit(*warning);
}

/// Returns the memory that no process uses; nullopt if the GPU's driver does not report it.
std::optional<double> free_mb(at::Device device) {
  if (device.is_cpu()) return static_cast<double>(available_memory()) / (1 << 20);
  const auto bytes = device::cuda_available_memory(device);
  return bytes ? std::optional(static_cast<double>(*bytes) / (1 << 20)) : std::nullopt;
}

}  // namespace

Worker::Worker(const TrainctlEngineRequest& request, events::Heartbeat* heartbeat,
               train::EventSink emit)
    : request_(request), heartbeat_(heartbeat), emit_(std::move(emit)) {
  data::watch_stop_signal(request.stop_signal);
}

void Worker::enter(events::Phase phase) {
  phase_ = phase;
  if (heartbeat_ != nullptr) heartbeat_->stamp(phase, global_step_);
}

events::Failed Worker::failure_at() const {
  events::Failed failed;
  failed.rank = request_.rank;
  failed.global_step = global_step_;
  failed.phase = phase_;
  return failed;
}

int Worker::exit_code_for(const events::Finished& finished) const {
  if (finished.stop_reason != "signal") return 0;
  return static_cast<int>(interrupted() ? ErrorKind::interrupted : ErrorKind::terminated);
}

bool Worker::interrupted() const {
  return request_.stop_signal != nullptr && *request_.stop_signal == SIGINT;
}

int Worker::run() {
  const data::ProgressCount progress(heartbeat_ != nullptr ? &heartbeat_->loaded : nullptr);
  enter(events::Phase::startup);
  using spec::JobKind;
  const JobKind kind = spec::kind_called(request_.mode);
  if (kind == JobKind::train) return run_training();
  if (kind == JobKind::link || kind == JobKind::gpu) return run_on_device(kind);
  if (kind == JobKind::evaluate || kind == JobKind::predict) return run_evaluation();
  return run_job(kind);
}

Worker::Setup Worker::set_up() {
  config::Diagnostics diagnostics;  // warnings were printed before the worker was started
  const fs::path file = fs::path(request_.run_dir) / "config.resolved.yaml";
  Setup place{spec::load_experiment(file, {}, diagnostics).experiment};
  const spec::Experiment& experiment = place.experiment;
  place.device = device::choose_device(accelerator_for(request_, experiment), request_.local_rank);
  emit_(hello(request_.rank, place.device));
  check_allocator(experiment.trainer.allocator);
  place.backends = train::choose_backends(experiment.trainer, train::backend_device(place.device));
  train::apply_backends(experiment.trainer, place.backends);
  report_kernels(request_, place.device, emit_);
  return place;
}

int Worker::run_job(spec::JobKind kind) {
  const Setup place = set_up();
  const JobSetup setup{request_, place.experiment, place.device, emit_};
  if (kind == spec::JobKind::replay) return replay(setup);
  if (kind == spec::JobKind::script) return export_script(setup);
  if (kind == spec::JobKind::check) return check_model(setup);
  return request_.world_size > 1 ? measure_shared_steps(setup) : measure(setup);
}

int Worker::run_on_device(spec::JobKind kind) {
  const bool on_gpu =
      request_.accelerator != nullptr && std::string_view(request_.accelerator) == "gpu";
  const at::Device device = device::choose_device(
      on_gpu ? spec::Accelerator::gpu : spec::Accelerator::cpu, request_.local_rank);
  emit_(hello(request_.rank, device));
  if (kind == spec::JobKind::link) return measure_link(request_, device, emit_);
  const train::EventSink emit = [this](const events::Event& event) {
    ++global_step_;
    enter(events::Phase::train);  // each check counts as a step, whose time is limited
    emit_(event);
  };
  return test_gpu(request_, device, emit);
}

int Worker::run_training() {
  const fs::path run_dir = request_.run_dir;
  Setup place = set_up();
  const spec::Experiment& experiment = place.experiment;
  const at::Device device = place.device;
  const auto devices = devices_of_model(place.experiment, device, request_.world_size);
  const RunData data = open_data(experiment, {request_.rank, request_.world_size},
                                 request_.local_world_size, device);
  fit_batch(place.experiment, data.train.dataset->size(), request_.world_size);
  const stage::Catalog catalog = catalog_in_use();
  const stage::ModelContext shape = data.model_context(experiment.task);
  const auto communicator =
      build_communicator(request_, experiment.distributed, device, heartbeat_);
  ProbeContext probe{
      experiment, catalog, shape, device, request_.local_world_size, choices_before(run_dir)};
  probe.devices = static_cast<int>(devices.size());
  const train::ThreadChoice threads = choose_threads(probe, *communicator);
  const train::LayoutChoice layout = resolve_layout(probe, *communicator);
  place.experiment.trainer.channels_last.value = layout.channels_last;
  const LoadingContext batches{probe, data, threads.step_s, request_.local_rank};
  const data::LoadingChoice loading = choose_loading(batches, *communicator);
  const RunLoaders loaders = build_loaders(batches, loading);
  const JobSetup trial{request_, experiment, device, emit_};
  const train::RecomputeChoice recompute = decide_recompute(
      {trial, data.train, request_.local_world_size, ring_bytes(loaders)}, *communicator);
  place.experiment.trainer.activation_checkpointing = mode_of(recompute);
  at::manual_seed(experiment.seed);
  const spec::RunLength schedule =
      spec::schedule_length(experiment, loaders.train->samples(), request_.world_size);
  RunStages built = build_stages(
      {experiment, catalog, shape, device, schedule, run_dir, communicator.get(), devices});
  if (request_.rank == 0 && built.start) emit_(*built.start);
  require_convolutions(*built.model, place.backends);
  // All ranks initialize the same weights; dropout and other draws then use a separate stream per
  // rank.
  CounterRng stream(experiment.seed, /*epoch=*/0, static_cast<std::uint64_t>(request_.rank),
                    /*operation=*/0xffff);
  at::manual_seed(stream.next_u64());
  train::Options options = train::options_from(experiment, device, request_.world_size);
  options.until_epoch = spec::read_job(run_dir).until_epoch;
  const OriginContext origin{run_dir,        device,           threads, layout.channels_last,
                             place.backends, data.fingerprints};
  const train::Session session{.model = *built.model,
                               .task = *built.task,
                               .loss = *built.loss,
                               .optimizer = *built.optimizer,
                               .scheduler = *built.scheduler,
                               .stopper = built.stopper.get(),
                               .metrics = built.metrics,
                               .unfreezing = built.unfreezing,
                               .train = *loaders.train,
                               .validation = loaders.validation.get(),
                               .batch_size = experiment.loader.batch_size,
                               .communicator = *communicator,
                               .buckets = buckets_of(experiment.distributed),
                               .clock = steady_clock(),
                               .emit = emit_,
                               .heartbeat = heartbeat_,
                               .stop_signal = request_.stop_signal,
                               .run_dir = run_dir,
                               .origin = origin_of(origin),
                               .cores = cores_of_rank(request_.local_world_size),
                               .earlier_waits = {}};  // the start of the process belongs to the run
  train::TrainLoop loop(session, options);
  const StartedRun run{experiment,   data,           loaders,
                       *built.model, schedule,       request_.world_size,
                       threads,      layout,         loading,
                       recompute,    place.backends, train::records_steps(session, options)};
  if (request_.rank == 0) emit_start(describe(run, options.monitor), emit_);
  resume_or_start(loop, session, experiment);
  const events::Finished finished =
      run_to_end({loop, options, *built.model, shape, experiment.loader.batch_size});
  if (data.test) test_weights({loop, session, batches, loading, place}, finished.stop_reason);
  enter(events::Phase::shutdown);
  communicator->shutdown();
  emit_(finished);
  if (finished.stop_reason == "signal" && loop.state().end_is_saved && !interrupted())
    return static_cast<int>(ErrorKind::stopped);
  return exit_code_for(finished);
}

void Worker::resume_or_start(train::TrainLoop& loop, const train::Session& session,
                             const spec::Experiment& experiment) {
  const spec::Job job = spec::read_job(request_.run_dir);
  if (job.resume.empty()) return write_split(request_, experiment);
  using train::PartialEpoch;
  const checkpoint::Manifest saved =
      in_context("--resume", [&] { return checkpoint::read_manifest(job.resume); });
  const std::string changed =
      job.accepts_data_change ? changed_data(saved, session.origin) : std::string();
  in_context("--resume", [&] {
    loop.resume(job.resume, changed.empty() ? PartialEpoch::resume : PartialEpoch::restart);
  });
  global_step_ = loop.state().position.global_step;
  const bool is_local =
      request_.world_size > 1 && experiment.distributed.type == spec::Strategy::local_sgd;
  std::string why_not =
      why_not_bitwise(saved, {session.origin, request_.world_size, loop.buckets(), is_local});
  ENSURE(checkpoint, why_not.empty() || !experiment.trainer.deterministic,
         "cannot resume bit for bit, as trainer.deterministic requires: {}\nhint: set "
         "trainer.deterministic to false to resume anyway",
         why_not);
  if (request_.rank != 0) return;
  write_split(request_, experiment);
  if (!changed.empty()) {
    emit_(events::Warning{
        fmt::format(
            "the data has changed since the checkpoint was saved ({}); epoch {} starts{} with "
            "the new data",
            changed, saved.epoch + 1, saved.step_in_epoch > 0 ? " again from its first batch" : ""),
        {}});
    why_not += (why_not.empty() ? "" : "; ") + changed;
  }
  const train::Position next = loop.state().next();
  emit_(events::Resumed{.path = job.resume.string(),
                        .epoch = next.epoch,
                        .step_in_epoch = next.step_in_epoch,
                        .global_step = next.global_step,
                        .bitwise = why_not.empty(),
                        .why_not = why_not});
}

/// Estimates the largest outputs for the failed batch from one random row. If this fails, too, the
/// report omits them.
std::vector<train::LayerOutput> Worker::largest_activations(const Training& training,
                                                            const train::MemoryUse& use) noexcept {
  try {
    if (!train::has_room_for_a_row(use)) return {};
    const device::DeviceBatch row = made_up_batch(training.shape, 1, training.options.device);
    return train::largest_outputs(training.model, row.inputs, training.options.forward, use.batch);
  } catch (...) {
    return {};
  }
}

events::Finished Worker::run_to_end(const Training& training) {
  const auto& [loop, options, model, shape, batch_size] = training;
  const double before = memory_mb(options.device);
  try {
    events::Finished finished = loop.run();
    global_step_ = finished.global_step;
    loop.drop_graph();
    return finished;
  } catch (...) {
    const std::exception_ptr thrown = std::current_exception();
    phase_ = loop.phase();
    global_step_ = loop.state().position.global_step;
    loop.rescue(as_error(thrown).kind());
    const auto refusal = refused_memory(thrown);
    if (!refusal) throw;
    train::MemoryUse use{
        .phase = events::phase_name(phase_),
        .step = global_step_,
        .batch = batch_size,
        .accumulate = options.accumulate,
        .before = before,
        .peak = device::cuda_peak_memory_mb(options.device).value_or(device::peak_rss_mb()),
        .now = memory_mb(options.device)};
    use.free = free_mb(options.device);
    use.cause = *refusal;
    use.largest = largest_activations(training, use);
    throw Error(ErrorKind::resource, train::memory_report(use));
  }
}

}  // namespace trainctl::engine
