#include "study/preflight/run_plan.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/resource_usage.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/loading_plan.hpp"
#include "launch/supervise/verdict.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/plan/model_plan.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/preflight/experiment_checks.hpp"
#include "study/preflight/rank_plan.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_jobs.hpp"

namespace trainctl::study {
namespace {

bool names_link(const ScalingOptions& options) {
  return !options.link_file.empty() || !options.bandwidth.empty();
}

double bandwidth_of(const std::string& text) {
  const auto rate = report::parse_bandwidth(text);
  ENSURE(config, rate.has_value(),
         "--bandwidth must be a number above 0 with a unit, such as 25GB/s or 100Gbit/s, got {}",
         printable(text));
  return *rate;
}

double latency_of(const std::string& text) {
  const auto seconds = report::parse_latency(text);
  ENSURE(config, seconds.has_value(),
         "--latency must be a number with a unit, such as 20us or 0.5ms, got {}", printable(text));
  return *seconds;
}

report::Link link_of_file(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const Json document = parse_json(read_file(file, kMostBytes, ReadFailure::config));
  ENSURE(config, !document.is_discarded(), "{} is not valid JSON", printable(file));
  return report::read_link(document, file);
}

/// Measures with as many of the plan's ranks as this machine has devices for. The result describes
/// one message between neighbors, which does not depend on the number of ranks.
events::LinkMeasured measured_link(int ranks, bool on_gpus, const fs::path& executable) {
  const LinkDevices places = count_link_devices();
  const int here = std::min(ranks, on_gpus ? places.gpus : std::max(places.cores, 2));
  ENSURE(resource, here >= 2,
         "measuring the link between GPUs needs at least 2 GPUs, got {}\nhint: add --link FILE, "
         "written by 'trainctl doctor --link --json' on a machine with several GPUs, or "
         "--bandwidth and --latency",
         places.gpus);
  return measure_link({executable, here, on_gpus});
}

std::pair<report::Link, std::string> choose_link(const ScalingOptions& options, bool on_gpus,
                                                 const fs::path& executable) {
  if (!options.link_file.empty()) return {link_of_file(options.link_file), options.link_file};
  if (!options.bandwidth.empty())
    return {{latency_of(options.latency), bandwidth_of(options.bandwidth)},
            "--bandwidth and --latency"};
  const events::LinkMeasured measured = measured_link(options.devices, on_gpus, executable);
  return {report::fit_link(measured).link, "measured now: " + report::ranks_text(measured)};
}

std::string device_of(const events::Measured& model) {
  if (model.device != "cpu") return model.device_name.empty() ? model.device : model.device_name;
  return fmt::format("cpu with {} thread{}", model.num_threads, plural(model.num_threads));
}

/// Returns whether a run of that many ranks would share the cores of this machine and fit into its
/// memory.
bool shares_cores(const ScalingOptions& options, const spec::Loaded& loaded,
                  const report::Plan& plan) {
  const spec::Experiment& experiment = loaded.experiment;
  const bool for_gpus = experiment.trainer.accelerator == spec::Accelerator::gpu ||
                        experiment.distributed.backend == spec::Backend::nccl ||
                        plan.model->device != "cpu";
  const bool elsewhere = names_link(options) || experiment.trainer.num_nodes > 1;
  const bool fits = report::host_bytes(*plan.model, options.devices) <= plan.available_bytes;
  return !for_gpus && !elsewhere && fits && options.devices <= std::max(plan.cores, 2);
}

void add_shared_step(int ranks, const MeasureRequest& request, report::Plan& plan) {
  const events::Measured shared = measure_shared_steps(request, *plan.model, ranks);
  report::PlannedScaling& scaling = *plan.scaling;
  const bool averages = scaling.step.exchange == report::SyncKind::weights;
  const double averaging_s =
      averages ? report::estimate_step(scaling.step, scaling.link, ranks).exposed_s : 0;
  scaling.shared = shared_step(*plan.model, shared, scaling.step.batches, averaging_s);
  report::use_measured(*scaling.shared, scaling.step, scaling.rows);
  plan.model->taken_cores = std::max(plan.model->taken_cores, shared.taken_cores);
}

void add_steps(const ScalingOptions& options, const spec::Loaded& loaded,
               const fs::path& executable, report::Plan& plan) {
  const auto step = synced_step(loaded.experiment, *plan.model);
  ENSURE(unexpected, step.has_value(), "the measurement of the model contains no step time");
  const bool on_gpus = plan.model->device != "cpu";
  auto [link, from] = choose_link(options, on_gpus, executable);
  plan.scaling = report::PlannedScaling{
      .step = *step,
      .link = link,
      .link_from = std::move(from),
      .device = device_of(*plan.model),
      .backward_from = on_gpus ? "estimated from the FLOPs of both passes" : "timed",
      .rows = report::estimate_scaling(*step, link, options.devices)};
  if (shares_cores(options, loaded, plan))
    add_shared_step(options.devices, {loaded, executable, /*times_steps=*/true}, plan);
}

/// Stores why the model or the link was not measured, as one line in the plan.
void store_failure(const char* object, const Error& error, std::string& plan_reason,
                   PlanResult& result) {
  plan_reason = one_line(error.what());
  result.reason = fmt::format("cannot measure the {}: {}", object, error.what());
  result.exit_code = error.exit_code();
}

/// Predicts the steps of several ranks. A link that cannot be measured does not end the plan.
void predict_steps(const ScalingOptions& options, const spec::Loaded& loaded,
                   const fs::path& executable, PlanResult& result) {
  try {
    add_steps(options, loaded, executable, result.plan);
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code()) || error.kind() == ErrorKind::config) throw;
    store_failure("link", error, result.plan.scaling_unavailable, result);
  }
}

/// Returns the experiment of the file for a machine that has `ranks` devices of its kind.
spec::Loaded for_larger_machine(spec::Loaded written, int ranks) {
  spec::Trainer& trainer = written.experiment.trainer;
  set_devices(trainer, ranks);
  trainer.num_nodes = 1;
  const bool for_gpus = trainer.cuda_graphs.value_or(false) ||
                        written.experiment.distributed.backend == spec::Backend::nccl;
  if (for_gpus && trainer.accelerator == spec::Accelerator::automatic)
    trainer.accelerator = spec::Accelerator::gpu;
  return written;
}

/// Returns the problems that the checks of a run find for that many ranks: the data checks use the
/// experiment that was loaded here, the others the experiment as it was written.
std::vector<std::string> problems_of(spec::Loaded loaded, const spec::Loaded& written, int ranks) {
  set_devices(loaded.experiment.trainer, ranks);
  config::Diagnostics found;
  const spec::Loaded larger = for_larger_machine(written, ranks);
  spec::Checker checker(larger.experiment, larger.tree, found);
  spec::check_distributed(checker);
  spec::check_capture(larger, found);
  (void)check_data(loaded, Purpose::training, found);
  std::vector<std::string> problems;
  for (const config::Diagnostic& one : found.sorted()) {
    if (one.severity != config::Severity::error) continue;
    problems.push_back(one.hint.empty() ? one.message : one.message + "; " + one.hint);
  }
  return problems;
}

void add_fake_ranks(int ranks, const PlanInput& input, report::Plan& plan) {
  const spec::Experiment& experiment = input.loaded.experiment;
  EpochSamples samples{.train = plan.epoch_samples, .val = {}};
  for (const report::PlannedSplit& split : plan.splits) {
    if (split.name == "val") samples.val = split.samples;
  }
  report::FakeRanks fake = plan_ranks(experiment, samples, ranks);
  if (plan.model) add_model(experiment, *plan.model, fake);
  fake.loading_bytes = plan.rank_bytes();
  fake.problems = problems_of(input.loaded, input.written, ranks);
  if (!plan.refused_here.empty())
    fake.notes.push_back("a run on this machine would not start: " + plan.refused_here);
  plan.fake = std::move(fake);
}

const char* tier_name(data::CacheTier tier) {
  constexpr std::array kNames{"none", "encoded", "decoded", "device"};
  return kNames.at(static_cast<std::size_t>(tier));
}

/// Plans the memory and threads of one split after the other, within the budget that the previous
/// splits leave.
class LoadingPlanner {
 public:
  LoadingPlanner(const spec::Experiment& experiment, bool probes)
      : experiment_(experiment),
        probes_(probes),
        place_(spec::placement_of(experiment.trainer, read_machine())),
        available_(available_memory()),
        cache_(place_.on_gpus
                   ? data::CacheBudget::of_plan(experiment.dataset.cache, place_.ranks_here,
                                                available_)
                   : data::CacheBudget(experiment.dataset.cache, place_.ranks_here, available_)),
        ring_left_(available_ / 2 / static_cast<std::uint64_t>(place_.ranks_here)) {
    plan_.device = place_.on_gpus ? "gpu" : "cpu";
    plan_.ranks = place_.ranks;
    plan_.ranks_here = place_.ranks_here;
    plan_.cores = usable_cores();
    plan_.batch_size = experiment.loader.batch_size;
    plan_.accumulate = experiment.trainer.accumulate_grad_batches;
    plan_.recomputes =
        experiment.trainer.activation_checkpointing == spec::ActivationCheckpointing::blocks;
    plan_.available_bytes = available_;
    plan_.cache_budget = experiment.dataset.cache.mode == spec::CacheMode::none
                             ? 0
                             : experiment.dataset.cache.budget.of(available_);
    choose_loading();
  }

  report::Plan plan() {
    add("train", experiment_.dataset.train, data::build_pipeline(experiment_.dataset.train),
        data::Role::train);
    if (spec::validates(experiment_))
      add("val", *experiment_.dataset.val, data::build_pipeline(*experiment_.dataset.val),
          data::Role::evaluate);
    return plan_;
  }

 private:
  void choose_loading() {
    const spec::Loader& loader = experiment_.loader;
    limits_ = {.cores = std::max(plan_.cores / plan_.ranks_here, 1),
               .training_uses_cores = !place_.on_gpus,
               .ring_bytes = ring_left_};
    plan_.auto_workers = loader.num_workers.is_auto();
    plan_.workers = loader.num_workers.value_or(data::most_auto_workers(limits_));
    plan_.auto_prefetch = loader.prefetch_factor.is_auto();
    plan_.prefetch_factor = loader.prefetch_factor.value_or(data::LoadingChoice::kMostPrefetch);
  }

  void add(const std::string& name, const spec::DataSplit& split, const data::Pipeline& pipeline,
           data::Role role) {
    const auto trains_on = place_.on_gpus ? data::TrainsOn::gpu : data::TrainsOn::cpu;
    data::LoaderOptions options =
        data::loader_options(experiment_, role, {0, place_.ranks}, trains_on);
    options.num_workers = plan_.workers;
    options.prefetch_factor = plan_.prefetch_factor;
    options.memory_budget = ring_left_;
    const std::uint64_t cache_left = cache_.left;
    const data::MemoryPlan memory =
        in_context("dataset." + name, [&] { return memory_plan(pipeline, options, cache_); });
    ring_left_ -= std::min(memory.ring(), ring_left_);
    if (role == data::Role::train) count_steps(pipeline, options);
    if (role == data::Role::train && probes_) probe(pipeline, options, memory.slot);
    note_changes(name, memory, cache_left);
    plan_.splits.push_back({.name = name,
                            .dataset = split.dataset.type,
                            .samples = pipeline.dataset->size(),
                            .dataset_bytes = memory.dataset.memory,
                            .mapped_bytes = memory.dataset.mapped,
                            .cache = tier_name(memory.cache.tier),
                            .cache_bytes = memory.cache.host_bytes(),
                            .device_bytes = memory.cache.device_bytes(),
                            .slots = memory.slots,
                            .slot_bytes = memory.slot,
                            .order_bytes = memory.orders,
                            .threads = memory.threads,
                            .scratch_bytes = memory.scratch,
                            .ahead_bytes = memory.ahead,
                            .transfer_bytes = memory.transfers});
  }

  void count_steps(const data::Pipeline& pipeline, const data::LoaderOptions& options) {
    std::int64_t samples = pipeline.dataset->size();
    if (options.sampling) samples = options.sampling->num_samples.value_or(samples);
    plan_.epoch_samples = samples;
    const spec::RunLength length = spec::schedule_length(experiment_, samples, place_.ranks);
    plan_.batches_per_epoch = spec::train_batches(experiment_, samples, place_.ranks);
    plan_.steps_per_epoch = length.steps_per_epoch;
    plan_.epochs = length.known_epochs();
    plan_.steps = length.steps;
    if (experiment_.trainer.fast_dev_run) plan_.epochs = plan_.steps = plan_.steps_per_epoch = 1;
  }

  void probe(const data::Pipeline& pipeline, const data::LoaderOptions& options,
             std::uint64_t slot_bytes) {
    const CoreUseMeter others;
    const auto cost = data::time_batches(pipeline, options, steady_clock());
    ENSURE(data, cost.has_value(),
           "cannot load training samples to measure the loading time\nhint: run 'trainctl data "
           "hash' to see why");
    limits_.consumer_helps = cost->whole;
    const data::LoadingChoice choice = data::choose_loading(
        experiment_.loader, {cost->seconds, cost->spread, 0}, limits_, slot_bytes);
    plan_.probe = {.batch_s = cost->seconds,
                   .prefetch_factor = choice.prefetch_factor,
                   .workers = {},
                   .spread = cost->spread,
                   .taken_cores = others.taken()};
    if (!plan_.auto_workers) return;
    for (const auto& [step_s, workers] :
         data::auto_workers_by_step(cost->seconds, limits_, slot_bytes))
      plan_.probe->workers.push_back({step_s, workers});
  }

  void note_changes(const std::string& name, const data::MemoryPlan& memory,
                    std::uint64_t cache_left) {
    if (!memory.refusal.empty()) {
      if (plan_.refusal.empty()) plan_.refusal = "dataset." + name + ": " + memory.refusal;
      return;
    }
    if (memory.slots < memory.slots_wanted && !plan_.auto_prefetch)
      plan_.shrunk.push_back(fmt::format(
          "{}: only {} of {} prepared batches fit in memory, so fewer batches are prefetched", name,
          memory.slots, memory.slots_wanted));
    const bool automatic = experiment_.dataset.cache.mode == spec::CacheMode::automatic;
    if (!automatic || memory.cache.tier == data::CacheTier::decoded ||
        memory.cache_need.decoded <= cache_left)
      return;
    const bool encoded = memory.cache.tier == data::CacheTier::encoded;
    plan_.shrunk.push_back(
        fmt::format("{}: decoded images need {}, but {} of dataset.cache.budget are left, so {}",
                    name, human_bytes(memory.cache_need.decoded), human_bytes(cache_left),
                    encoded ? "encoded images are cached" : "no images are cached"));
  }

  const spec::Experiment& experiment_;
  bool probes_;
  spec::Placement place_;
  std::uint64_t available_;
  data::CacheBudget cache_;
  std::uint64_t ring_left_;
  data::LoadingLimits limits_;
  report::Plan plan_;
};

/// Measures the model. An error in the config or data ends the plan; after other failures the plan
/// contains the reason instead of the model.
void measure(const spec::Loaded& loaded, const PlanOptions& options, const fs::path& executable,
             PlanResult& result) {
  report::Plan& plan = result.plan;
  try {
    const bool times_steps = options.probe || options.scaling.devices > 0;
    plan.model = measure_model({loaded, executable, times_steps});
    plan.recomputes = plan.model->recomputes;  // the value that `auto` resolves to
    const bool shards = loaded.experiment.distributed.type == spec::Strategy::zero1;
    if (shards && options.scaling.fake_ranks == 0)
      plan.model->optimizer_bytes = optimizer_share(*plan.model, plan.ranks);
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code()) || error.kind() == ErrorKind::config ||
        error.kind() == ErrorKind::data)
      throw;
    store_failure("model", error, plan.no_model, result);
  }
}

/// Returns the value of Plan::no_graphs.
std::optional<std::string> graphs_obstacle(const PlanInput& input, int fake_ranks,
                                           const report::Plan& plan) {
  spec::Experiment experiment = fake_ranks > 0
                                    ? for_larger_machine(input.written, fake_ranks).experiment
                                    : input.loaded.experiment;
  const spec::Placement placement = spec::placement_of(experiment.trainer, read_machine());
  if (!placement.on_gpus) return std::nullopt;
  if (!experiment.trainer.cuda_graphs.value_or(true)) return "trainer.cuda_graphs is false";
  if (plan.recomputes)  // `auto` is resolved now
    experiment.trainer.activation_checkpointing = spec::ActivationCheckpointing::blocks;
  return spec::capture_obstacle(experiment, placement).value_or("");
}

std::string model_obstacle(const PlanOptions& options, const report::Plan& plan) {
  if (options.no_model) return "--no-model";
  if (!plan.refusal.empty()) return "a run would not start";
  return options.has_engine
             ? ""
             : "this build has no training engine (libtrainctl_engine.so): build it with cmake "
               "--build --preset release";
}

/// Loads the experiment for some of the ranks of --fake-ranks. If they are rejected, loads it for
/// one rank, because the plan lists the problems of all ranks.
spec::Loaded load(const Invocation& invocation, const ScalingOptions& options,
                  config::Diagnostics& diagnostics) {
  constexpr int kMostHere = 2;  // the minimum for a measurement as one of several ranks
  const auto load_for = [&](int most_here) {
    return make_request(invocation, overrides_of(options, most_here), diagnostics).loaded;
  };
  try {
    return load_for(kMostHere);
  } catch (const Error& error) {
    if (options.fake_ranks < 2 || error.kind() != ErrorKind::config) throw;
  }
  diagnostics = {};
  return load_for(1);
}

}  // namespace

void check_options(const ScalingOptions& options) {
  const bool names_any = names_link(options) || !options.latency.empty();
  ENSURE(config, options.devices > 0 || !names_any,
         "--link, --bandwidth and --latency need --devices\nhint: add --devices N");
  ENSURE(config, options.bandwidth.empty() == options.latency.empty(),
         "--bandwidth and --latency must be given together\nhint: give both, or --link FILE");
  ENSURE(config, options.link_file.empty() || options.bandwidth.empty(),
         "--link excludes --bandwidth and --latency\nhint: remove --link or the other two");
  if (!options.bandwidth.empty()) {
    (void)bandwidth_of(options.bandwidth);
    (void)latency_of(options.latency);
  }
  if (!options.link_file.empty()) (void)link_of_file(options.link_file);
}

std::vector<std::string> overrides_of(const ScalingOptions& options, int most_here) {
  if (options.fake_ranks == 0) return {};
  const int gpus = static_cast<int>(read_machine().gpus.size());
  const int here = std::min({options.fake_ranks, most_here, gpus > 0 ? gpus : usable_cores()});
  std::vector<std::string> overrides{fmt::format("++trainer.devices={}", here),
                                     "++trainer.num_nodes=1", "++trainer.cuda_graphs=auto",
                                     "++distributed.backend=auto"};
  if (gpus == 0)
    overrides.insert(overrides.end(),
                     {"++trainer.accelerator=auto", "++trainer.allow_slow_precision=true"});
  return overrides;
}

PlanInput load_for_plan(const Invocation& invocation, const ScalingOptions& options,
                        config::Diagnostics& diagnostics) {
  PlanInput input;
  input.loaded = load(invocation, options, diagnostics);
  ENSURE(config, input.loaded.experiment.distributed.type != spec::Strategy::data_parallel,
         "plan cannot predict a run with distributed.type data_parallel; {}\nhint: set "
         "distributed.type=ddp",
         spec::kDataParallelIsSlower);
  if (options.fake_ranks == 0) {
    (void)devices_of_run(input.loaded.experiment, read_machine(),
                         [] { return launch::probe_gpus(); });
    return input;
  }
  config::Diagnostics ignored;  // the problems of the file are those of `loaded`
  input.written = spec::read_experiment(invocation.config_file, invocation.overrides, ignored);
  return input;
}

PlanResult make_plan(const PlanInput& input, const PlanOptions& options,
                     const fs::path& executable) {
  PlanResult result{.plan = LoadingPlanner(input.loaded.experiment, options.probe).plan()};
  report::Plan& plan = result.plan;
  if (options.scaling.fake_ranks > 0) plan.refused_here = std::exchange(plan.refusal, {});
  plan.no_model = model_obstacle(options, plan);
  if (plan.no_model.empty()) measure(input.loaded, options, executable, result);
  plan.no_graphs = graphs_obstacle(input, options.scaling.fake_ranks, plan);
  if (options.scaling.fake_ranks > 0) add_fake_ranks(options.scaling.fake_ranks, input, plan);
  if (options.scaling.devices > 0 && plan.model)
    predict_steps(options.scaling, input.loaded, executable, result);
  if (plan.fake && !plan.fake->problems.empty())
    result.exit_code = static_cast<int>(ErrorKind::config);
  if (!plan.refusal.empty()) {
    result.exit_code = static_cast<int>(ErrorKind::resource);
    result.reason = "a run would not start: " + plan.refusal;
  }
  return result;
}

}  // namespace trainctl::study
