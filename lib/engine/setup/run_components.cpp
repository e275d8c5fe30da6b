#include "engine/setup/run_components.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "data/cache/image_cache.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/formats/table.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/remote/local_tier.hpp"
#include "device/device.hpp"
#include "log/log.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/job.hpp"
#include "spec/options/scheduler.hpp"
#include "spec/options/task.hpp"
#include "spec/plugins.hpp"
#include "stage/plugin_entry.hpp"
#include "stages/builtin.hpp"
#include "stages/optimizer/grouped.hpp"
#include "train/parallel/data_parallel.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/step/forward.hpp"
#include "weights/import.hpp"

#include <cstdint>
#include <span>

namespace trainctl::engine {
namespace {

data::Layout layout_of(const data::Pipeline& pipeline) {
  return data::transformed(pipeline.dataset->layout(), pipeline.transforms);
}

spec::ModelInput input_of(const data::Pipeline& pipeline) {
  const data::Roles roles = data::roles_of(layout_of(pipeline));
  return {roles.kind, roles.input_shape, roles.outputs(pipeline.dataset->classes())};
}

void check_same_samples(const data::Pipeline& train, const data::Pipeline& other,
                        const char* split) {
  ENSURE(config, layout_of(train) == layout_of(other),
         "dataset.{} and dataset.train have samples of different shapes\nhint: give both "
         "splits the same image size or the same columns",
         split);
  const std::int64_t classes = other.dataset->classes();
  ENSURE(config, train.dataset->classes() == classes,
         "dataset.{} and dataset.train have different numbers of classes: {} and {}", split,
         classes, train.dataset->classes());
}

/// Returns a hash of the file with the teacher's weights, which checkpoints do not contain.
std::string fingerprint_of(const std::filesystem::path& weights) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 30;
  const std::string text = read_file(weights, kMostBytes, ReadFailure::config);
  return to_hex(hash_bytes(std::as_bytes(std::span(text))));
}

/// Returns a callback that logs the progress of filling a cache every 10 seconds.
data::Progress logged(const char* split) {
  constexpr double kEveryS = 10;
  return [split, next = steady_clock().now() + kEveryS](std::int64_t done,
                                                        std::int64_t total) mutable {
    if (steady_clock().now() < next) return;
    next = steady_clock().now() + kEveryS;
    log::get().info("dataset.{}: {} of {} images read into the cache", split, with_thousands(done),
                    with_thousands(total));
  };
}

/// Loads the weights from the file itself, or from the supervisor's converted copy.
void load_weights(const StageSetup& setup, const spec::Weights& asked, const stage::Model& model,
                  events::WeightsSet& report) {
  const std::filesystem::path imported = setup.run_dir / weights::kImportedName;
  const bool was_imported = std::filesystem::exists(imported);
  report.path = asked.path.string();
  report.format = was_imported ? "torch" : "safetensors";
  const std::filesystem::path& file = was_imported ? imported : asked.path;
  if (was_imported) {
    const safetensors::File header(file);
    const auto notes = header.metadata().find(weights::kNotesKey);
    if (notes != header.metadata().end() && !notes->second.empty())
      report.notes = split(notes->second, '\n');
  }
  train::load_weights(model, file,
                      {.strict = asked.strict,
                       .renaming = {.prefix = asked.prefix, .key_map = asked.key_map},
                       .last_layer = {},
                       .outputs = setup.model.outputs},
                      report);
}

std::optional<events::WeightsSet> start_model(const StageSetup& setup, const stage::Model& model) {
  if (!setup.experiment.weights && setup.experiment.freeze.empty()) return std::nullopt;
  events::WeightsSet report;
  if (const auto& asked = setup.experiment.weights) {
    in_context("weights: " + printable(asked->path.string()),
               [&] { load_weights(setup, *asked, model, report); });
  }
  report.frozen = train::freeze(model, setup.experiment.freeze);
  for (const spec::Unfreeze& stage : setup.experiment.unfreeze_at)
    report.notes.push_back(fmt::format("{} is trained after {} epoch{}", shortened(stage.match),
                                       stage.epoch, plural(stage.epoch)));
  return report;
}

/// The length of the run. The initial rate is that of an optimizer that is not built yet.
stage::SchedulerContext schedule_of(const StageSetup& setup, double initial_lr = 0) {
  const spec::RunLength& length = setup.schedule;
  return {initial_lr, length.epochs, length.steps_per_epoch, length.steps};
}

/// Builds the optimizer; with zero1 for this rank's share of the parameters.
std::unique_ptr<stage::Optimizer> build_optimizer(const StageSetup& setup,
                                                  const stage::Model& model) {
  const spec::Experiment& experiment = setup.experiment;
  stage::OptimizerContext trained{train::trained_parameters(model)};
  const config::Stage optimizer =
      spec::with_scheduled_momentum(experiment.optimizer, experiment.scheduler);
  const stage::SchedulerContext run = schedule_of(setup);
  const auto build = [&] {
    return stages::build_optimizer(setup.catalog, optimizer, trained, &run);
  };
  const dist::RankInfo place =
      setup.communicator ? setup.communicator->rank_info() : dist::RankInfo{};
  if (experiment.distributed.type != spec::Strategy::zero1 || place.world_size == 1) return build();
  trained.owned =
      train::owned_by(train::owners_of(trained.parameters, place.world_size), place.rank);
  return std::make_unique<train::ShardedOptimizer>(
      build(), trained.parameters, *setup.communicator,
      train::ShardedOptimizer::Sharing{buckets_of(experiment.distributed).cap_bytes});
}

/// Divides the batches of the model among the devices, with a replica on each device but the first.
std::unique_ptr<stage::Model> divide_batches(const StageSetup& setup,
                                             std::unique_ptr<stage::Model> model) {
  std::vector<std::unique_ptr<stage::Model>> replicas;
  for (std::size_t i = 1; i < setup.devices.size(); ++i) {
    replicas.push_back(setup.catalog.models.build(setup.experiment.model, setup.model));
    replicas.back()->to(setup.devices[i]);
  }
  return std::make_unique<train::DataParallelModel>(std::move(model), std::move(replicas),
                                                    setup.devices);
}

data::Pipeline build_unlabeled(const spec::Experiment& experiment,
                               const std::filesystem::path& input) {
  const data::Unlabeled found =
      data::unlabeled_split(input, spec::evaluating_transforms(experiment));
  return data::build_pipeline(found.split, found.catalog);
}

/// Throws if `dataset.split` now selects other training samples than those that the weights were
/// trained on, because the other parts may contain some of these.
void expect_same_division(const spec::Experiment& experiment, const spec::Job& job) {
  const spec::DataSplit& train = experiment.dataset.train;
  if (job.division.empty() || !train.part || !job.input.empty()) return;
  const std::string now = in_context("dataset.train", [&] { return data::division_digest(train); });
  ENSURE(checkpoint, now == job.division,
         "dataset.split divides other data than in training, so dataset.{} may contain training "
         "samples (fingerprint of the split in training: {}, now: {})\nhint: restore the old data, "
         "make the new samples a separate data set in dataset.test, or add --accept-data-change",
         job.split, printable(job.division), now);
}

}  // namespace

stage::ModelContext model_context(const spec::Experiment& experiment, const spec::Job& job) {
  if (job.model_input) return model_context_of(*job.model_input, experiment.task);
  data::mount_remote(experiment.dataset);
  return model_context_of(
      in_context("dataset.train", [&] { return data::build_pipeline(experiment.dataset.train); }),
      experiment.task);
}

stage::ModelContext model_context_of(spec::ModelInput data, const config::Stage& task) {
  spec::ModelInput input = spec::model_input(task, std::move(data));
  return {std::move(input.shape), input.outputs, input.kind, std::move(input.output_shape)};
}

stage::ModelContext model_context_of(const data::Pipeline& pipeline, const config::Stage& task) {
  return model_context_of(input_of(pipeline), task);
}

stage::ModelContext RunData::model_context(const config::Stage& task) const {
  spec::ModelInput input = input_of(train);
  if (learned) {
    const bool lacks_mask =
        learned->targets == spec::Targets::pixels && input.kind.targets != spec::Targets::pixels;
    if (lacks_mask) ++input.shape[0];  // which the task removes
    input.outputs = learned->outputs;
    input.kind.targets = learned->targets;
  }
  return model_context_of(std::move(input), task);
}

RunData open_data(const spec::Experiment& experiment, data::Shard shard, int ranks_here,
                  at::Device device) {
  data::mount_remote(experiment.dataset);
  RunData out;
  out.shard = shard;
  const auto images = device::make_image_device(device);
  auto cache = data::CacheBudget::of_run(experiment.dataset.cache, ranks_here, images.get());
  in_context("dataset.train", [&] {
    out.train =
        data::with_cache(data::build_pipeline(experiment.dataset.train), cache, logged("train"));
    out.fingerprints["train"] = out.train.dataset->fingerprint();
    if (experiment.dataset.train.part)
      out.fingerprints["split"] = data::division_digest(experiment.dataset.train);
  });
  if (experiment.trainer.test) {
    in_context("dataset.test", [&] { out.test = data::build_pipeline(*experiment.dataset.test); });
    check_same_samples(out.train, *out.test, "test");
  }
  if (const auto* options = experiment.task.get_if<spec::task::Distillation>())
    out.fingerprints["teacher"] = fingerprint_of(options->weights);
  if (!spec::validates(experiment)) return out;
  in_context("dataset.val", [&] {
    out.validation =
        data::with_cache(data::build_pipeline(*experiment.dataset.val), cache, logged("val"));
    out.fingerprints["val"] = out.validation->dataset->fingerprint();
  });
  check_same_samples(out.train, *out.validation, "val");
  return out;
}

RunData open_split(const spec::Experiment& experiment, const spec::Job& job, data::Shard shard) {
  data::mount_remote(experiment.dataset);
  expect_same_division(experiment, job);
  RunData out;
  out.shard = shard;
  out.learned = job.learned;
  const bool is_part = job.input.empty();
  in_context(is_part ? "dataset." + job.split : "predict", [&] {
    out.train = is_part ? data::build_pipeline(spec::evaluated_split(experiment, job.split))
                        : build_unlabeled(experiment, job.input);
    const bool as_training = !is_part || job.split == "train";
    for (std::size_t i = 0; i < out.train.transforms.size(); ++i) {
      ENSURE(config, !as_training || !out.train.transforms[i]->random(),
             "transform '{}' is random, so the outputs would differ each time\nhint: add "
             "dataset.val, whose transforms are used instead",
             out.train.names[i]);
    }
  });
  return out;
}

std::string changed_statistics(const spec::Experiment& experiment, const spec::Job& job) {
  if (job.trained_on.empty() || !job.input.empty() ||
      !data::learns_from_data(spec::split_called(experiment, job.split).dataset))
    return {};
  const std::string now = in_context("dataset.train", [&] {
    return data::build_dataset(experiment.dataset.train, data::catalog_in_use())->fingerprint();
  });
  if (now == job.trained_on) return {};
  return fmt::format(
      "dataset.train has changed since training, so dataset.{} is encoded with other means, "
      "deviations or categories (fingerprint of dataset.train in training: {}, now: {})",
      job.split, printable(job.trained_on), now);
}

RunStages build_stages(const StageSetup& setup) {
  const spec::Experiment& experiment = setup.experiment;
  const stage::Catalog& catalog = setup.catalog;
  RunStages stages;
  stages.model = catalog.models.build(experiment.model, setup.model);
  stages.model->to(setup.device);
  stages.start = start_model(setup, *stages.model);
  if (experiment.trainer.activation_checkpointing == spec::ActivationCheckpointing::blocks) {
    ENSURE(config, stages.model->checkpoint_activations(),
           "trainer.activation_checkpointing requires a model with blocks, but '{}' has none\n"
           "hint: remove the key",
           experiment.model.type);
  }
  if (experiment.trainer.channels_last.value_or(false)) train::lay_out_channels_last(*stages.model);
  stages.loss = catalog.losses.build(experiment.loss,
                                     {setup.model.outputs, setup.device, setup.model.kind.targets});
  stages.unfreezing = train::unfreeze_later(*stages.model, experiment.unfreeze_at);
  stages.optimizer = build_optimizer(setup, *stages.model);
  stages.scheduler = catalog.schedulers.build(experiment.scheduler,
                                              schedule_of(setup, stages.optimizer->initial_lr()));
  if (experiment.early_stopping)
    stages.stopper = catalog.stoppers.build(experiment.early_stopping, {});
  for (const config::Stage& metric : experiment.metrics) {
    stages.metrics.push_back(catalog.metrics.build(
        metric, {setup.model.outputs, setup.device, setup.model.kind.targets}));
  }
  stages.task = build_task({experiment, catalog, setup.model, setup.device});
  if (setup.devices.size() > 1) stages.model = divide_batches(setup, std::move(stages.model));
  return stages;
}

std::vector<at::Device> data_parallel_devices(const spec::Experiment& experiment, at::Device device,
                                              int world_size) {
  std::vector<at::Device> devices{device};
  if (experiment.distributed.type != spec::Strategy::data_parallel || device.is_cpu())
    return devices;
  ENSURE(config, world_size == 1,
         "distributed.type data_parallel is a single process, but the launcher started {} ranks\n"
         "hint: set distributed.type=ddp",
         world_size);
  const int count = experiment.trainer.devices.value_or(device::cuda_devices());
  for (int i = 1; i < count; ++i) devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
  return devices;
}

dist::BucketOptions buckets_of(const spec::Distributed& options) {
  dist::BucketOptions buckets;
  buckets.cap_bytes = static_cast<std::size_t>(options.bucket_cap_mb * (1 << 20));
  buckets.powersgd_rank = options.powersgd_rank;
  buckets.find_unused = options.find_unused_parameters;
  switch (options.compression) {
    case spec::Compression::none: buckets.compression = dist::Compression::none; break;
    case spec::Compression::bf16: buckets.compression = dist::Compression::bf16; break;
    case spec::Compression::fp16: buckets.compression = dist::Compression::fp16; break;
    case spec::Compression::powersgd: buckets.compression = dist::Compression::powersgd; break;
  }
  return buckets;
}

std::unique_ptr<dist::Communicator> build_communicator(const TrainctlEngineRequest& request,
                                                       const spec::Distributed& options,
                                                       at::Device device,
                                                       events::Heartbeat* heartbeat) {
  using spec::Backend;
  if (request.world_size == 1) return dist::make_single();
  ENSURE(config, options.backend != Backend::nccl || device.is_cuda(),
         "distributed.backend=nccl requires GPUs, but this run is on CPUs\nhint: use gloo or auto");
  ENSURE(config, options.backend != Backend::gloo || device.is_cpu(),
         "distributed.backend=gloo requires CPUs, but this run is on GPUs\nhint: use nccl or auto");
  dist::GroupOptions group;
  group.rank_info = {request.rank, request.world_size};
  group.store = std::make_shared<launch::StoreClient>(request.store_fd);
  group.heartbeat = heartbeat;
  if (request.group_address != nullptr) group.address = request.group_address;
  group.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1e3));
  return device.is_cuda() ? dist::make_nccl(group, device) : dist::make_gloo(group);
}

namespace {

stage::Catalog stages_of(const std::filesystem::path& library) {
  const auto* entry = static_cast<const stage::PluginEngineEntry*>(
      spec::plugin_symbol(library, "trainctl_plugin_engine"));
  spec::check_stamp(library, {entry->layout, entry->abi}, stage::PluginEngineEntry{}.abi);
  stage::Catalog own;
  if (entry->add_stages != nullptr) {
    in_context("plug-in '" + printable(library.string()) + "'", [&] { entry->add_stages(own); });
  }
  return own;
}

}  // namespace

stage::Catalog catalog_in_use() {
  stage::Catalog all = stages::builtin_catalog();
  for (const spec::Plugin& plugin : spec::plugins_in_use()) {
    if (plugin.entry->engine == nullptr) continue;
    all.merge(stages_of(plugin.library.parent_path() / plugin.entry->engine));
  }
  return all;
}

}  // namespace trainctl::engine
