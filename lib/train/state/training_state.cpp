#include "train/state/training_state.hpp"

#include "base/json_archive.hpp"
#include "base/machine/host_waits.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "device/host_read.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/state/weight_averaging.hpp"
#include "train/state/weights.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

namespace trainctl::train {
namespace {

/// The prefix of the gradient synchronizer's tensors.
constexpr const char* kSync = "sync/";

/// Returns the name of a metric's sums in a checkpoint. The index allows two metrics of one name.
std::string metric_state_name(const Session& session, std::size_t i) {
  return fmt::format("metrics/{}.{}", i, session.metrics[i]->name());
}

/// Restores growing metrics separately, because the checkpoint determines the size of their state.
/// Returns the names of their tensors.
std::vector<std::string> restore_growing_metrics(const Session& session, const SavedState& saved) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < session.metrics.size(); ++i) {
    stage::GrowingMetric* metric = stage::as_growing(*session.metrics[i]);
    if (metric == nullptr) continue;
    names.push_back(metric_state_name(session, i));
    metric->reset();
    for (const stage::NamedTensor& one : saved.tensors(names.back())) metric->merge(one.tensor);
  }
  return names;
}

/// Returns the loader.batch_size that keeps the checkpoint's global batch with this number of
/// ranks; 0 if no batch size does.
std::int64_t keeping_batch(std::int64_t rows, std::int64_t batches, std::int64_t ranks) {
  const std::int64_t global = batches > 0 && rows % batches == 0 ? rows / batches : 0;
  return global % ranks == 0 ? global / ranks : 0;
}

/// Returns the prefixes of the tensors that other ranks own. They follow from the model, because a
/// rank may own nothing itself.
std::vector<std::string> names_of_others(const Session& session, const Options& options) {
  std::vector<std::string> names;
  if (options.strategy != spec::Strategy::zero1) return names;
  const std::vector<stage::NamedTensor> trained = trained_parameters(session.model);
  const dist::RankInfo place = session.communicator.rank_info();
  const std::vector<int> owners = owners_of(trained, place.world_size);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (owners[i] != place.rank) names.push_back("optimizer/" + trained[i].name + ".");
  }
  return names;
}

/// Both were written together, so a file in which they differ or are invalid is not ours.
void check_position(const Position& at, const checkpoint::Manifest& manifest) {
  ENSURE(checkpoint,
         at.epoch == manifest.epoch && at.step_in_epoch == manifest.step_in_epoch &&
             at.global_step == manifest.global_step,
         "the checkpoint is damaged: its files are from different steps: 'manifest' from step {} "
         "(epoch {}, batch {}), the file of this rank from step {} (epoch {}, batch {})",
         with_thousands(manifest.global_step), manifest.epoch + 1, manifest.step_in_epoch,
         with_thousands(at.global_step), at.epoch + 1, at.step_in_epoch);
}

}  // namespace

void TrainingState::serialize(StateArchive& archive) const {
  const auto& [session, options, state, phases, step, sync, evaluator, observers] = parts_;
  state.serialize(archive);
  const double now = session.clock.now();
  double elapsed = now - state.begun;
  archive.value("elapsed_s", &elapsed);
  state.begun = now - elapsed;
  archive.group("meter", [&] { step.meter().serialize(archive); });
  for (const auto& observer : observers) {
    if (!observer->state_key().empty())
      archive.group(observer->state_key(), [&] { observer->serialize(archive); });
  }
  if (evaluator != nullptr) archive.group("evaluator", [&] { evaluator->serialize(archive); });
  archive.group("train", [&] { session.train.serialize(archive); });
  if (session.validation != nullptr)
    archive.group("val", [&] { session.validation->serialize(archive); });
  archive.group("optimizer", [&] { session.optimizer.serialize(archive); });
  archive.group("scheduler", [&] { session.scheduler.serialize(archive); });
  if (const stage::TrainedModel* other = session.task.trained())
    archive.group("task", [&] { other->optimizer->serialize(archive); });
}

/// Parameters, and everything computed from the shared gradients, are equal on all ranks. The ranks
/// of local SGD share no gradients, and with ZeRO each rank keeps a part of the optimizer state.
std::vector<StateTensor> TrainingState::all_tensors() const {
  enum class Of { all, rank, owner };
  const Session& session = parts_.session;
  std::vector<StateTensor> all;
  const auto add = [&](const char* group, const std::vector<stage::NamedTensor>& tensors, Of of) {
    for (const auto& [name, tensor] : tensors)
      all.push_back({std::string(group) + "/" + name, tensor, of == Of::rank, of == Of::owner});
  };
  const spec::Strategy strategy = parts_.options.strategy;
  const Of of_gradients = strategy == spec::Strategy::local_sgd ? Of::rank : Of::all;
  add("model", session.model.parameters(), Of::all);
  add("model", session.model.buffers(), Of::rank);
  add("optimizer", session.optimizer.state(),
      strategy == spec::Strategy::zero1 ? Of::owner : of_gradients);
  if (const stage::TrainedModel* other = session.task.trained()) {
    add("task/model", other->model->parameters(), Of::all);
    add("task/model", other->model->buffers(), Of::rank);
    add("task/optimizer", other->optimizer->state(), Of::all);
  }
  if (parts_.step.scaler() != nullptr) add("scaler", parts_.step.scaler()->state(), of_gradients);
  for (const dist::SyncTensor& kept : parts_.sync.state())
    all.push_back({kSync + kept.name, kept.tensor, kept.of_rank});
  add("meter", parts_.step.meter().state(), Of::rank);
  for (std::size_t i = 0; i < session.metrics.size(); ++i)
    all.push_back({metric_state_name(session, i), session.metrics[i]->sums(), true, false});
  for (const auto& observer : parts_.observers)
    std::ranges::move(observer->tensors(), std::back_inserter(all));
  return all;
}

std::vector<StateTensor> TrainingState::saved_tensors() const {
  std::vector<StateTensor> all = all_tensors();
  if (is_weights_only()) {
    std::erase_if(all, [](const StateTensor& one) {
      return !one.name.starts_with("model/") &&
             !one.name.starts_with(std::string(WeightAveraging::kKey) + "/");
    });
  }
  return all;
}

std::vector<stage::NamedTensor> TrainingState::tensors() const {
  std::vector<stage::NamedTensor> tensors =
      saved_by(saved_tensors(), parts_.session.communicator.rank_info().rank);
  if (is_weights_only()) return tensors;
  for (const auto& [name, random] : random_states(parts_.options.device))
    tensors.push_back({"rng/" + name, random});
  return tensors;
}

Json TrainingState::values() const {
  StateWriter archive;
  if (is_weights_only()) {  // the average decides which of the two weights to load
    for (const auto& observer : parts_.observers) {
      if (observer->state_key() == WeightAveraging::kKey)
        archive.group(WeightAveraging::kKey, [&] { observer->serialize(archive); });
    }
  } else {
    serialize(archive);
    events::Timing times;
    if (!parts_.state.epoch_done) {
      times = parts_.phases.so_far();
      add_times(times, parts_.state.earlier);
    }
    archive.group("times", [&] { serialize_times(times, archive); });
  }
  const dist::RankInfo place = parts_.session.communicator.rank_info();
  const Position at = parts_.state.next();
  Json values = Json::object();
  values["rank"] = place.rank;
  values["world_size"] = place.world_size;
  values["position"] = {{"epoch", parts_.state.moment().epoch_number()},
                        {"next_epoch", at.epoch + 1},
                        {"step_in_epoch", at.step_in_epoch},
                        {"global_step", at.global_step}};
  values["training"] = archive.json();
  return values;
}

std::uint64_t TrainingState::expected_bytes() const {
  const std::vector<StateTensor> all = saved_tensors();
  std::uint64_t bytes = stored_bytes(saved_by(all, 0));
  const auto others =
      static_cast<std::uint64_t>(parts_.session.communicator.rank_info().world_size - 1);
  for (const StateTensor& one : all) {  // all ranks own about the same amount
    if (one.of_owner) bytes += others * one.tensor.nbytes();
  }
  if (is_weights_only()) return bytes;
  for (const auto& observer : parts_.observers) bytes += observer->expected_bytes();
  return bytes;
}

void TrainingState::restore(const std::filesystem::path& checkpoint, PartialEpoch epoch) {
  LoopState& state = parts_.state;
  const SavedState saved(checkpoint, parts_.session.communicator.rank_info());
  in_context("cannot restore " + checkpoint.string(), [&] { restore_values(saved, epoch); });
  restore_tensors(saved);
  state.other_world = !saved.same_world();
  if (state.other_world) merge_other_ranks(saved);
  if (state.other_world) average_sync_state(saved);
  state.resumed = true;
  state.resumed_from = checkpoint;
  state.resumed_in_epoch = !state.epoch_done;
  if (state.resumed_in_epoch) fit_position(saved.manifest());
  if (!state.early_reason.empty()) state.stop_reason = "early_stopping";
  if (state.epoch_done && at_step_limit(parts_.options, state)) state.stop_reason = "max_steps";
}

void TrainingState::restore_values(const SavedState& saved, PartialEpoch epoch) const {
  LoopState& state = parts_.state;
  StateReader archive(saved.values());
  serialize(archive);
  archive.group("times", [&] { serialize_times(state.earlier, archive); });
  archive.finish();
  check_position(state.next(), saved.manifest());
  if (epoch == PartialEpoch::restart && !state.epoch_done) {
    // Pretend that the previous epoch has just ended, so that the interrupted one comes next.
    --state.position.epoch;
    state.epoch_done = true;
  }
  const std::int64_t all = parts_.session.train.samples();
  ENSURE(checkpoint, state.samples >= 0 && (state.epoch_done || state.samples <= all),
         "it was saved after {} samples of an epoch, but an epoch of this run has only {}",
         with_thousands(state.samples), with_thousands(all));
}

void TrainingState::restore_tensors(const SavedState& saved) const {
  std::vector<std::string> of_others = names_of_others(parts_.session, parts_.options);
  if (!saved.same_world()) of_others.emplace_back(kSync);  // a run with one rank does not use it
  std::vector<StateTensor> own = all_tensors();
  if (saved.manifest().world_size == 1)  // a single rank synchronizes nothing and has no such state
    std::erase_if(own, [](const StateTensor& one) { return one.name.starts_with(kSync); });
  for (const std::string& name : restore_growing_metrics(parts_.session, saved)) {
    std::erase_if(own, [&name](const StateTensor& one) { return one.name == name; });
    of_others.push_back(name);
  }
  saved.copy_into(own, of_others);
  if (saved.same_world() || parts_.session.communicator.rank_info().rank == 0)
    set_random_states(parts_.options.device, saved.tensors("rng/"));
}

/// Merges into rank 0 what every rank has summed in the epoch so far.
void TrainingState::merge_other_ranks(const SavedState& saved) const {
  const at::NoGradGuard guard;
  const Session& session = parts_.session;
  LossMeter& meter = parts_.step.meter();
  if (session.communicator.rank_info().rank != 0) {
    for (const auto& metric : session.metrics) metric->reset();
    meter.reset();
    parts_.state.digest = 0;
  }
  for (std::size_t part = 1; part <= saved.others(); ++part) {
    const std::vector<stage::NamedTensor> sums = saved.tensors_of(part, "metrics/");
    if (!parts_.options.device.is_cpu()) count_host_wait(kRestoredPlace);
    for (std::size_t i = 0; i < std::min(sums.size(), session.metrics.size()); ++i)
      stage::merge(*session.metrics[i], sums[i].tensor);
    LossMeter other(parts_.options.device);
    recall(other, saved.values_of(part).at("meter"));
    const std::vector<stage::NamedTensor> totals = saved.tensors_of(part, "meter/");
    for (std::size_t i = 0; i < std::min(totals.size(), other.state().size()); ++i)
      copy_restored(totals[i].tensor, other.state()[i].tensor);
    meter.add(other);
    parts_.state.digest += saved.values_of(part).at("digest").get<std::uint64_t>();
  }
}

/// The residual of compressed gradients differs between ranks, and only its mean affects training.
void TrainingState::average_sync_state(const SavedState& saved) const {
  if (saved.manifest().world_size == 1) return;  // a single rank has no residual
  const at::NoGradGuard guard;
  for (const dist::SyncTensor& kept : parts_.sync.state()) {
    if (!kept.of_rank) continue;
    const std::string name = kSync + kept.name;
    for (std::size_t part = 1; part <= saved.others(); ++part) {
      for (const stage::NamedTensor& other : saved.tensors_of(part, name))
        if (other.name.empty())
          kept.tensor.add_(device::copy_to(other.tensor, kept.tensor.device(), kRestoredPlace));
    }
    kept.tensor.div_(saved.manifest().world_size);
    parts_.session.communicator.broadcast(kept.tensor, "broadcast of '" + name + "'");
  }
}

/// Sets the next batch to the one after the rows that were trained on. These must be a whole number
/// of accumulation windows, which are now divided among another number of ranks.
void TrainingState::fit_position(const checkpoint::Manifest& manifest) const {
  const Session& session = parts_.session;
  Position& position = parts_.state.position;
  const std::int64_t rows = parts_.state.samples;
  const int world = session.communicator.rank_info().world_size;
  const std::int64_t full = session.batch_size * world;
  position.steps_in_epoch = session.train.batches_per_epoch();
  const std::int64_t all = std::min(session.train.samples(), position.steps_in_epoch * full);
  if (rows >= all) {
    position.step_in_epoch = position.steps_in_epoch;
    return;
  }
  if (rows % (full * parts_.options.accumulate) != 0) {
    const std::int64_t batch = keeping_batch(rows, manifest.step_in_epoch, world);
    throw Error(
        ErrorKind::config,
        fmt::format(
            "cannot resume within epoch {} with {} rank{} and loader.batch_size {}: the {} samples "
            "trained so far are not a multiple of the {} samples of a step\nhint: {}",
            position.epoch + 1, world, plural(world), session.batch_size, with_thousands(rows),
            with_thousands(full * parts_.options.accumulate),
            batch > 0 ? fmt::format("set loader.batch_size={} to keep the global batch size", batch)
                      : fmt::format("resume with {} ranks, or from a checkpoint at the end "
                                    "of an epoch",
                                    manifest.world_size)));
  }
  position.step_in_epoch = rows / full;
}

}  // namespace trainctl::train
