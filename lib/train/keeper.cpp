#include "train/keeper.hpp"

#include "base/files.hpp"

#include <cmath>

namespace trainctl::train {

Keeper::Keeper(const Session& session, const Options& options)
    : session_(session), options_(options), writes_(session.communicator.place().rank == 0) {}

bool Keeper::observe(const Position& position, double monitored) {
  if (!std::isfinite(monitored)) return false;
  const bool better = !best_ || (options_.mode == spec::Mode::min ? monitored < best_value_ : monitored > best_value_);
  if (!better) return false;
  best_value_ = monitored;
  best_position_ = position;
  const bool restores = session_.stopper != nullptr && session_.stopper->restore_best();
  if (!best_)
    best_.emplace(options_.save_best || restores ? weights_of(session_.model) : std::vector<stage::NamedTensor>{});
  best_->take();
  unsaved_ = options_.save_best;
  return true;
}

void Keeper::save_due(std::int64_t epoch) {
  if (unsaved_ && (epoch + 1) % options_.save_every == 0) save_best();
}

void Keeper::save_best() {
  unsaved_ = false;
  if (!writes_) return;
  const Position& at = best_position_;
  make_folder(session_.run_dir / "checkpoints");
  save_weights(session_.run_dir / "checkpoints/best.safetensors", best_->tensors(),
               {{"epoch", std::to_string(at.epoch)},
                {"global_step", std::to_string(at.global_step)},
                {"metric", options_.monitor},
                {"value", fmt::format("{}", best_value_)}});
  session_.emit(
      events::CheckpointSaved{"checkpoints/best.safetensors", at.epoch, at.global_step, options_.monitor, best_value_});
}

void Keeper::save_all(const Position& position) {
  if (unsaved_) save_best();
  if (!options_.save_last || !writes_) return;
  make_folder(session_.run_dir / "checkpoints");
  save_weights(session_.run_dir / "checkpoints/last.safetensors", weights_of(session_.model),
               {{"epoch", std::to_string(position.epoch)}, {"global_step", std::to_string(position.global_step)}});
  session_.emit(events::CheckpointSaved{"checkpoints/last.safetensors", position.epoch, position.global_step, "", 0});
}

void Keeper::restore_best() {
  if (best_) best_->restore();
}

}  // namespace trainctl::train
