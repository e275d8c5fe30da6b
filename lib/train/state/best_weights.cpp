#include "train/state/best_weights.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"

#include <cmath>
#include <system_error>
#include <utility>

namespace trainctl::train {

BestWeights::BestWeights(const Session& session, const Options& options, Phases& phases)
    : session_(session),
      options_(options),
      phases_(phases),
      writes_(session.communicator.rank_info().rank == 0),
      restores_(session.stopper != nullptr && session.stopper->restore_best()) {}

bool BestWeights::is_best(std::optional<double> monitored) const {
  if (!monitored || !std::isfinite(*monitored)) return false;
  if (!best_value_) return true;
  return options_.mode == spec::Mode::min ? *monitored < *best_value_ : *monitored > *best_value_;
}

void BestWeights::take(std::optional<Snapshot>& into) const {
  if (!into) into.emplace(weights_of(session_.model));
  into->take();
}

bool BestWeights::observe(const Position& position, std::optional<double> monitored,
                          const stage::StopDecision& decision) {
  settle();
  const bool best = is_best(monitored);
  if (best) {
    best_value_ = monitored;
    best_position_ = position;
    unsaved_ = options_.save_best;
    if (shares_best_ && !decision.improved) {  // the stopper still needs the old weights
      stoppers_best_ = std::exchange(best_, std::nullopt);
      shares_best_ = false;
    }
    if (options_.save_best) take(best_);
  }
  if (!restores_ || !decision.improved) return best;
  stoppers_position_ = position;
  shares_best_ = best && options_.save_best;
  if (shares_best_) {
    stoppers_best_.reset();
  } else {
    take(stoppers_best_);
  }
  return best;
}

std::vector<stage::NamedTensor> BestWeights::state() const {
  std::vector<stage::NamedTensor> all;
  const auto add = [&](const std::string& prefix, const std::optional<Snapshot>& kept) {
    if (!kept) return;
    for (const auto& [name, tensor] : kept->tensors()) all.push_back({prefix + name, tensor});
  };
  add("best.", best_);
  add("stoppers_best.", stoppers_best_);
  return all;
}

void BestWeights::serialize(StateArchive& archive) {
  serialize_ranking(archive);
  archive.group("best_position", [&] { best_position_.serialize(archive); });
  serialize(archive, "has_best", best_);
  archive.value("shares_best", &shares_best_);
  serialize(archive, "has_stoppers_best", stoppers_best_);
  bool stopper_has_one = stoppers_position_.has_value();
  archive.value("stopper_has_one", &stopper_has_one);
  Position position = stoppers_position_.value_or(Position{});
  archive.group("stoppers_position", [&] { position.serialize(archive); });
  stoppers_position_ = stopper_has_one ? std::optional(position) : std::nullopt;
}

/// If the monitor has changed, the stored value cannot be compared with new values.
void BestWeights::serialize_ranking(StateArchive& archive) {
  const std::string own_mode = enum_names(options_.mode)[static_cast<std::size_t>(options_.mode)];
  std::string monitor = options_.monitor;
  std::string mode = own_mode;
  archive.value("monitor", &monitor);
  archive.value("mode", &mode);
  archive.value("best_value", &best_value_);
  archive.value("unsaved", &unsaved_);
  write_is_pending_ = write_is_pending_ || writing_.valid();
  archive.value("owes_write", &write_is_pending_);
  if (monitor == options_.monitor && mode == own_mode) return;
  const bool had_one = best_value_.has_value();
  best_value_.reset();
  unsaved_ = write_is_pending_ = false;
  if (!had_one || !writes_) return;
  session_.emit(
      events::Warning{fmt::format("the best weights were selected by {} ({}); from the next epoch "
                                  "on they are selected by {} ({})",
                                  printable(monitor), printable(mode), options_.monitor, own_mode),
                      {}});
}

void BestWeights::serialize(StateArchive& archive, std::string_view key,
                            std::optional<Snapshot>& kept) const {
  bool is_there = kept.has_value();
  archive.value(key, &is_there);
  if (!is_there) kept.reset();
  if (is_there && !kept) kept.emplace(weights_of(session_.model));
}

void BestWeights::save_due(std::int64_t epoch) {
  if ((epoch + 1) % options_.save_every == 0) save_soon();
}

void BestWeights::save_soon() {
  if (!unsaved_ || writing_.valid()) return;
  begin_best();
  if (!options_.saving || !options_.saving->asynchronous) settle();
}

void BestWeights::save_new_best(OnFailure on_failure) {
  settle();
  if (!unsaved_) return;
  begin_best();
  settle_best(on_failure);
}

/// Copies to the host on this thread: another thread's CUDA calls would break the capture of a
/// graph.
void BestWeights::begin_best() {
  if (!writes_) {
    unsaved_ = false;
    return;
  }
  std::map<std::string, std::string> metadata{
      {"epoch", std::to_string(best_position_.epoch + 1)},
      {"global_step", std::to_string(best_position_.global_step)},
      {"metric", options_.monitor},
      {"value", fmt::format("{}", *best_value_)}};
  const auto write = [folder = session_.run_dir / "checkpoints",
                      weights = host_copies(best_->tensors()), metadata = std::move(metadata)] {
    make_folder(folder);
    save_weights(folder / "best.safetensors", weights, metadata);
  };
  try {
    writing_ = std::async(std::launch::async, write);
  } catch (const std::system_error&) {  // no more threads can be created
    writing_ = std::async(std::launch::deferred, write);
  }
}

/// The caller chooses moments that depend on the step only, because whether the best weights are
/// saved is part of the checkpointed state.
void BestWeights::settle_best(OnFailure on_failure) {
  if (write_is_pending_ && !writing_.valid()) begin_best();
  write_is_pending_ = false;
  if (!writing_.valid()) return;
  try {
    writing_.get();
    unsaved_ = false;
    session_.emit(events::CheckpointSaved{"checkpoints/best.safetensors", best_position_.epoch,
                                          best_position_.global_step, options_.monitor,
                                          *best_value_});
  } catch (const Error& error) {
    if (on_failure == OnFailure::end || error.kind() != ErrorKind::resource) throw;
    warn_of_failure("best", error);
  }
}

void BestWeights::warn_of_failure(const char* file, const Error& error) const {
  const std::string text = error.what();
  const std::string cause = text.substr(0, text.find("\nhint: "));
  session_.emit(
      events::Warning{fmt::format("cannot write checkpoints/{}.safetensors: {}", file, cause), {}});
}

void BestWeights::save_last(const Position& position, OnFailure on_failure) {
  if (!options_.save_last || !writes_) return;
  const Position at = restored_.value_or(position);
  try {
    make_folder(session_.run_dir / "checkpoints");
    save_weights(
        session_.run_dir / "checkpoints/last.safetensors", weights_of(session_.model),
        {{"epoch", std::to_string(at.epoch + 1)}, {"global_step", std::to_string(at.global_step)}});
    session_.emit(
        events::CheckpointSaved{"checkpoints/last.safetensors", at.epoch, at.global_step, "", 0});
  } catch (const Error& error) {
    if (on_failure == OnFailure::end || error.kind() != ErrorKind::resource) throw;
    warn_of_failure("last", error);
  }
}

void BestWeights::restore_best() {
  if (!restores_ || !stoppers_position_) return;
  (shares_best_ ? best_ : stoppers_best_)->restore();
  restored_ = stoppers_position_;
}

std::optional<Position> BestWeights::load_best() {
  if (!best_) return std::nullopt;
  best_->restore();
  return best_position_;
}

/// The file of the previous best weights may still be being written, which may take longer than the
/// epoch.
void BestWeights::on_validation_end(LoopState& state) {
  {
    const PhaseScope scope(phases_, Part::checkpoint, events::Phase::checkpoint);
    settle();
  }
  phases_.stamp(events::Phase::load);  // ranks that write nothing wait for rank 0
  state.report.improved = observe(state.position, state.monitored, state.decision);
}

void BestWeights::on_interval_validation_end(LoopState& state) {
  on_validation_end(state);
  const PhaseScope scope(phases_, Part::checkpoint, events::Phase::checkpoint);
  if (state.report.improved && options_.save_on_best) save_soon();
}

void BestWeights::on_epoch_end(LoopState& state) {
  {
    const PhaseScope scope(phases_, Part::checkpoint, events::Phase::checkpoint);
    save_due(state.position.epoch);
    if (state.report.improved && options_.save_on_best) save_soon();
  }
  phases_.stamp(events::Phase::load);  // a rank that has not saved waits for those that do
}

/// If a signal ends the run, a failed write only warns: the run will be resumed, and its exit code
/// says whether that is possible.
void BestWeights::on_run_end(LoopState& state) {
  const bool stopped = state.stop == Stop::signal;
  const OnFailure on_failure = stopped ? OnFailure::warn : OnFailure::end;
  save_new_best(on_failure);
  if (!stopped) restore_best();
  save_last(state.position, on_failure);
  state.finished.parameter_digest = digest_weights(weights_of(session_.model));
}

void BestWeights::on_failure(LoopState& state, ErrorKind cause) noexcept {
  try {
    save_new_best(OnFailure::warn);
    const bool trained = state.position.global_step > 0 && cause != ErrorKind::diverged;
    if (trained && not_finite(weights_of(session_.model)).empty())
      save_last(state.position, OnFailure::warn);
  } catch (...) {  // the first failure is reported, and this one only follows from it
  }
}

std::vector<StateTensor> BestWeights::tensors() const {
  std::vector<StateTensor> all;
  for (const auto& [name, tensor] : state()) all.push_back({"keeper/" + name, tensor});
  return all;
}

std::uint64_t BestWeights::expected_bytes() const {
  const bool keeps = options_.save_best || restores_;
  return keeps && state().empty() ? stored_bytes(weights_of(session_.model)) : 0;
}

}  // namespace trainctl::train
