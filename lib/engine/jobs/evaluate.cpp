#include "base/files.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/verify.hpp"
#include "device/host_read.hpp"
#include "engine/jobs/mask_writer.hpp"
#include "engine/jobs/quantize.hpp"
#include "engine/quantize/model_trace.hpp"
#include "engine/setup/provenance.hpp"
#include "engine/worker.hpp"
#include "train/loop/train_loop.hpp"
#include "train/parallel/stop_consensus.hpp"
#include "train/state/weights.hpp"
#include "weights/import.hpp"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <fcntl.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// The worker's part of `eval` and `predict`: runs one split through the model of a checkpoint. Also
// the test at the end of a training.

namespace trainctl::engine {
namespace {

namespace fs = std::filesystem;

struct Predicted {
  const data::Dataset& dataset;
  const data::Layout& layout;                      // of the data set's batches
  std::int64_t outputs = 0;                        // of the model for each sample
  bool labeled = true;                             // targets are written, too
  spec::Targets targets = spec::Targets::classes;  // of the model
  std::vector<fs::path> masks = {};                // of each sample, for a model of pixels
};

/// Data sets in arrays name their samples "sample 0", ...
bool has_names(const data::Dataset& dataset) {
  return dataset.images() != nullptr && dataset.size() > 0 &&
         dataset.images()->name(0) != "sample 0";
}

/// Writes the predictions of one rank into its part files in the run folder (spec::part_file): the
/// valid rows of its batches in order.
class PartWriter {
 public:
  PartWriter(const fs::path& run_dir, int rank, const Predicted& predicted)
      : dataset_(predicted.dataset),
        roles_(data::roles_of(predicted.layout)),
        outputs_(predicted.outputs),
        target_bytes_(predicted.layout[roles_.target].bytes()) {
    make_folder(spec::part_file(run_dir, "logits", rank).parent_path());
    logits_ = open(spec::part_file(run_dir, "logits", rank));
    if (predicted.labeled) targets_ = open(spec::part_file(run_dir, "targets", rank));
    if (has_names(dataset_)) names_ = open(spec::part_file(run_dir, "names", rank));
  }

  /// Returns whether the samples have names and not just numbers.
  [[nodiscard]] bool named() const { return names_.file.valid(); }

  /// Appends the rows of a batch; `logits` is [rows, outputs]. Throws Error(config) if the model's
  /// output has another shape, Error(resource) if the disk is full.
  void add(const data::Batch& batch, const at::Tensor& logits) {
    const at::Tensor outputs = logits.dim() > 2 ? logits.flatten(1) : logits;  // an image is a row
    ENSURE(
        config, outputs.dim() == 2 && outputs.size(0) >= batch.valid && outputs.size(1) == outputs_,
        "the output of the model for {} sample{} must have the shape [{}, {}], got [{}]",
        batch.valid, plural(batch.valid), batch.valid, outputs_, fmt::join(logits.sizes(), ", "));
    const at::Tensor valid = outputs.narrow(0, 0, batch.valid);
    const at::Tensor host =
        device::copy_to_host(valid, "outputs of a batch").to(at::kFloat).contiguous();
    append(logits_, {static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
    if (targets_.file.valid()) {
      const auto* targets = reinterpret_cast<const char*>(batch.fields[roles_.target].data());
      append(targets_, {targets, static_cast<std::size_t>(batch.valid) * target_bytes_});
    }
    if (!named()) return;
    for (std::int64_t row = 0; row < batch.valid; ++row) {
      const std::int64_t position = batch.position + row * batch.position_step;
      append(names_, to_line(Json(dataset_.images()->name(position))) + "\n");
    }
  }

  /// Writes the remaining text. Call it once at the end.
  void close() {
    flush(logits_);
    if (targets_.file.valid()) flush(targets_);
    if (named()) flush(names_);
  }

 private:
  struct Part {
    Fd file;
    std::string label;
    std::string text;  // not written yet
  };

  static Part open(const fs::path& path) {
    Part part{Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
              path.string(),
              {}};
    ENSURE(resource, part.file.valid(), "cannot write {}: {}", part.label, std::strerror(errno));
    return part;
  }

  static void append(Part& part, std::string_view bytes) {
    constexpr std::size_t kChunk = 1 << 20;
    part.text += bytes;
    if (part.text.size() >= kChunk) flush(part);
  }

  static void flush(Part& part) {
    write_all(part.file.get(), part.text, part.label);
    part.text.clear();
  }

  const data::Dataset& dataset_;
  data::Roles roles_;
  std::int64_t outputs_;
  std::size_t target_bytes_;
  Part logits_;
  Part targets_;  // not open: there are no labels
  Part names_;    // not open: the samples have no names
};

/// Writes the predictions of one rank: rows or, for a model of pixels, masks.
class PredictionWriter {
 public:
  PredictionWriter(const fs::path& run_dir, int rank, const Predicted& predicted) {
    ENSURE(config, predicted.targets != spec::Targets::tokens,
           "predict requires a model with one output per sample or pixel, but this model has one "
           "for each of the tokens");
    if (predicted.targets == spec::Targets::pixels) {
      masks_.emplace(run_dir / spec::kMaskFolder, predicted.masks, predicted.dataset);
    } else {
      parts_.emplace(run_dir, rank, predicted);
    }
  }

  [[nodiscard]] bool named() const { return parts_ && parts_->named(); }
  void add(const data::Batch& batch, const at::Tensor& logits) {
    if (masks_) return masks_->add(batch, logits);
    parts_->add(batch, logits);
  }
  void close() {
    if (parts_) parts_->close();
  }

 private:
  std::optional<PartWriter> parts_;
  std::optional<MaskWriter> masks_;
};

/// Returns an experiment that reads each sample of the split once and in order: limits, samplers
/// and the like are for training. An unreadable sample must fail, because a replacement would get
/// its prediction.
spec::Experiment for_whole_split(spec::Experiment experiment, const spec::Job& job) {
  experiment.trainer.limit_train_batches = {};
  experiment.trainer.limit_val_batches = {};
  experiment.trainer.overfit_batches = 0;
  experiment.trainer.fast_dev_run = false;
  experiment.loader.shuffle = false;
  experiment.loader.drop_last = false;
  experiment.loader.sampler = {};
  if (job.kind == spec::JobKind::predict) experiment.dataset.on_error = spec::OnError::fail;
  if (job.quantize) experiment.trainer.precision = spec::Precision::full;
  return experiment;
}

/// Builds the model with the weights of the checkpoint, the loss and the metrics.
RunStages build_evaluated(const ProbeContext& run, const fs::path& run_dir,
                          const fs::path& checkpoint) {
  const spec::Experiment& experiment = run.experiment;
  at::manual_seed(experiment.seed);
  RunStages stages;
  stages.model = run.catalog.models.build(experiment.model, run.model);
  stages.model->to(run.device);
  const fs::path imported = run_dir / weights::kImportedName;
  in_context("--checkpoint: " + printable(checkpoint.string()), [&] {
    events::WeightsSet event;
    train::load_weights(*stages.model, fs::exists(imported) ? imported : checkpoint,
                        {.whole = true}, event);
  });
  if (experiment.trainer.channels_last.value_or(false)) train::lay_out_channels_last(*stages.model);
  stages.loss = run.catalog.losses.build(experiment.loss,
                                         {run.model.outputs, run.device, run.model.kind.targets});
  stages.task = build_task({experiment, run.catalog, run.model, run.device, run.trains});
  for (const config::Stage& metric : experiment.metrics) {
    stages.metrics.push_back(
        run.catalog.metrics.build(metric, {run.model.outputs, run.device, run.model.kind.targets}));
  }
  return stages;
}

/// Returns whether the checkpoint was trained with channels-last images; nullopt for other files.
std::optional<bool> recorded_layout(const fs::path& weights) {
  if (!fs::exists(weights / checkpoint::kManifestName)) return std::nullopt;
  return channels_last_of(checkpoint::read_manifest(weights));
}

events::Evaluated describe(const spec::Job& job, const data::Loader& loader,
                           const stage::ModelContext& model) {
  const auto target = static_cast<std::size_t>(model.kind.targets);
  events::Evaluated event;
  event.split = job.input.empty() ? job.split : "input";
  event.labeled = !job.learned || job.learned->labeled;
  event.checkpoint = job.weights.string();
  event.samples = loader.samples();
  event.outputs = model.outputs;
  event.targets = enum_names(model.kind.targets).at(target);
  if (model.kind.targets == spec::Targets::numbers) event.target_numbers = model.outputs;
  return event;
}

/// Makes the int8 model, which reads dataset.train as `experiment` says, and measures it next to
/// the float32 model.
Int8Model quantize_next_to(const RunStages& stages, const ProbeContext& evaluation,
                           spec::Experiment experiment, const spec::Job& job,
                           dist::Communicator& communicator, events::Quantized& measured) {
  experiment.trainer = evaluation.experiment.trainer;
  const ProbeContext run{.experiment = experiment,
                         .catalog = evaluation.catalog,
                         .model = evaluation.model,
                         .device = evaluation.device,
                         .trains = false};
  Int8Model int8 = quantize_model(*stages.model, run, job, communicator);
  const std::string float32 =
      script_of(trace_model(*stages.model, evaluation.model, InPlace::kept));
  const ForwardSpeeds speeds =
      compare_speeds(*stages.model, *script_model(int8.script), evaluation.model,
                     experiment.loader.batch_size, train::forward_options(experiment.trainer));
  measured.layers = int8.layers;
  measured.calibration_batches = int8.batches;
  measured.float32_bytes = static_cast<std::int64_t>(float32.size());
  measured.int8_bytes = static_cast<std::int64_t>(int8.script.size());
  measured.float32_samples_per_s = speeds.float32;
  measured.int8_samples_per_s = speeds.int8;
  return int8;
}

/// Returns the path of the mask of each sample; nothing unless the model is one of pixels.
std::vector<fs::path> masks_of(const data::Dataset& dataset, const spec::Experiment& experiment,
                               const spec::Job& job, spec::Targets targets) {
  std::vector<fs::path> masks;
  if (targets != spec::Targets::pixels) return masks;
  const fs::path input = job.input;
  const fs::path images = fs::is_directory(input) ? input : input.parent_path();
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::string image = data::sample_name(dataset, i);
    masks.push_back(input.empty()
                        ? mask_path(image, spec::split_called(experiment, job.split).dataset)
                        : mask_path(image, images));
  }
  return masks;
}

}  // namespace

int Worker::run_evaluation() {
  const fs::path run_dir = request_.run_dir;
  const spec::Job job = spec::read_job(run_dir);
  const Setup place = set_up();
  spec::Experiment experiment = for_whole_split(place.experiment, job);
  const RunData data = open_split(experiment, job, {request_.rank, request_.world_size});
  if (request_.rank == 0) {
    if (std::string changed = changed_statistics(experiment, job); !changed.empty())
      emit_(events::Warning{std::move(changed), {}});
  }
  const stage::Catalog catalog = catalog_in_use();
  const stage::ModelContext shape = data.model_context(experiment.task);
  const auto communicator =
      build_communicator(request_, experiment.distributed, place.device, heartbeat_);
  const ProbeContext run{.experiment = experiment,
                         .catalog = catalog,
                         .model = shape,
                         .device = place.device,
                         .local_world_size = request_.local_world_size,
                         .before = {.threads = {}, .channels_last = recorded_layout(job.weights)},
                         .trains = false};
  experiment.trainer.channels_last.value = resolve_layout(run, *communicator).channels_last;
  const train::ThreadChoice threads = choose_threads(run, *communicator);
  const LoadingContext batches{run, data, threads.step_s, request_.local_rank};
  const auto loader = build_evaluation_loader(batches, choose_loading(batches, *communicator));
  RunStages evaluated = build_evaluated(run, run_dir, job.weights);
  events::Evaluated event = describe(job, *loader, shape);
  std::optional<PredictionWriter> writer;
  if (job.kind == spec::JobKind::predict) {
    writer.emplace(run_dir, request_.rank,
                   Predicted{*data.train.dataset, loader->layout(), shape.outputs, event.labeled,
                             shape.kind.targets,
                             masks_of(*data.train.dataset, experiment, job, shape.kind.targets)});
  }
  event.named = writer && writer->named();
  std::vector<events::TableRow> tables;
  const auto evaluate = [&](stage::Model& model) {
    train::Evaluator evaluator({.model = model,
                                .loss = *evaluated.loss,
                                .metrics = evaluated.metrics,
                                .loader = *loader,
                                .split = event.split,
                                .batch_size = experiment.loader.batch_size,
                                .communicator = *communicator,
                                .labeled = event.labeled || !shape.output_shape.empty(),
                                .task = *evaluated.task},
                               train::options_from(experiment, place.device));
    const double begun = steady_clock().now();
    auto metrics = evaluator.run(std::nullopt,
                                 watch_batches(*communicator, place, loader->batches_per_epoch()),
                                 [&](const data::Batch& batch, const at::Tensor& logits) {
                                   if (writer) writer->add(batch, logits);
                                 });
    event.wall_s = steady_clock().now() - begun;
    tables = evaluator.tables();
    return metrics;
  };
  auto metrics = evaluate(*evaluated.model);
  if (job.quantize && metrics) {
    event.quantized.emplace().float32_metrics = *metrics;
    enter(events::Phase::load);  // the calibration takes longer than a batch may
    const Int8Model int8 =
        quantize_next_to(evaluated, run, place.experiment, job, *communicator, *event.quantized);
    metrics = evaluate(*script_model(int8.script));
  }
  if (writer) writer->close();
  if (request_.rank == 0 && metrics) {
    if (event.labeled) event.metrics = *metrics;  // without labels, the loss has no meaning
    for (const events::TableRow& row : tables) emit_(row);
    emit_(event);
  }
  enter(events::Phase::shutdown);
  communicator->shutdown();
  const events::Finished finished{
      .global_step = global_step_,
      .parameter_digest = train::digest_weights(train::weights_of(*evaluated.model)),
      .stop_reason = metrics ? "end_of_split" : "signal"};
  emit_(finished);
  return exit_code_for(finished);
}

void Worker::test_weights(const TestSetup& setup, const std::string& stop_reason) {
  if (stop_reason == "signal" || stop_reason == "until_epoch") return;
  const auto& [loop, session, batches, loading, place] = setup;
  const auto loader = build_test_loader(batches, loading);
  const auto best = loop.load_best();
  train::Evaluator evaluator(train::evaluation_of(session, *loader, "test"),
                             train::options_from(place.experiment, place.device));
  const train::Position& end = loop.state().position;
  const double begun = session.clock.now();
  const auto metrics = evaluator.run(
      std::nullopt,
      watch_batches(session.communicator, place, loader->batches_per_epoch(), end.epoch));
  if (request_.rank != 0) return;
  if (!metrics)
    return emit_(events::Warning{
        "a signal ended the test of the weights: 'trainctl eval RUN --split test' repeats it", {}});
  emit_(events::Validated{end.epoch, end.global_step, *metrics, false, "test"});
  emit_(events::Evaluated{.split = "test",
                          .checkpoint = best ? "best" : "last",
                          .samples = loader->samples(),
                          .metrics = *metrics,
                          .wall_s = session.clock.now() - begun});
}

train::Evaluator::Watch Worker::watch_batches(dist::Communicator& communicator, const Setup& place,
                                              std::int64_t batches,
                                              std::optional<std::int64_t> epoch) {
  constexpr double kProgressEvery_s = 0.2;
  using train::StopConsensus;
  const auto cadence =
      place.device.is_cpu() ? StopConsensus::Cadence::by_time : StopConsensus::Cadence::sync_points;
  const auto consensus = std::make_shared<StopConsensus>(
      communicator, train::StopSources{.signal = request_.stop_signal}, cadence);
  const std::int64_t meet_every = spec::agreement_every(place.experiment.trainer.log_every_n_steps);
  return
      [this, consensus, batches, meet_every, epoch, reported_at = 0.0](std::int64_t batch) mutable {
        const double now = steady_clock().now();
        if (!epoch) global_step_ = batch + 1;
        enter(events::Phase::validate);
        if (request_.rank == 0 && now - reported_at >= kProgressEvery_s) {
          reported_at = now;
          emit_(events::Progress{.phase = events::Phase::validate,
                                 .epoch = epoch.value_or(0),
                                 .step_in_epoch = batch + 1,
                                 .steps_in_epoch = batches,
                                 .global_step = global_step_});
        }
        const bool meets = (batch + 1) % meet_every == 0;
        const auto at = meets ? StopConsensus::At::sync_point : StopConsensus::At::step;
        return consensus->after_step(at, now) != train::Stop::signal;
      };
}

}  // namespace trainctl::engine
