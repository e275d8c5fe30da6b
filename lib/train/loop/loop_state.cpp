#include "train/loop/loop_state.hpp"

#include "base/hash.hpp"

namespace trainctl::train {

void Position::serialize(StateArchive& archive) {
  std::int64_t number = epoch + 1;  // files count from 1
  archive.value("epoch", &number);
  epoch = number - 1;
  archive.value("step_in_epoch", &step_in_epoch);
  archive.value("steps_in_epoch", &steps_in_epoch);
  archive.value("global_step", &global_step);
}

std::string RunDigest::hex() const {
  if (!is_whole_) return "";
  Hasher hasher;
  for (const std::uint64_t digest : of_epochs_) hasher.add(digest);
  return hasher.hex();
}

void RunDigest::serialize(StateArchive& archive) {
  archive.value("epochs", &of_epochs_);
  archive.value("is_whole", &is_whole_);
}

Position LoopState::next() const {
  Position next = position;
  if (epoch_done) {
    ++next.epoch;
    next.step_in_epoch = 0;
  }
  return next;
}

void LoopState::serialize(StateArchive& archive) {
  archive.group("position", [&] { position.serialize(archive); });
  archive.value("epoch_done", &epoch_done);
  archive.value("epochs_done", &epochs_done);
  archive.value("rows_in_epoch", &samples);
  archive.value("epoch_value", &monitored);
  archive.value("early_reason", &early_reason);
  archive.value("lr", &lr);
  archive.value("digest", &digest);
  archive.group("run_digest", [&] { run_digest.serialize(archive); });
}

bool at_step_limit(const Options& options, const LoopState& state) {
  return options.max_steps && state.position.global_step >= *options.max_steps;
}

bool has_next_epoch(const Options& options, const LoopState& state) {
  const auto lies_before = [&](const std::optional<std::int64_t>& end) {
    return !end || state.position.epoch + 1 < *end;
  };
  return state.stop_reason.empty() && lies_before(options.max_epochs) &&
         lies_before(options.until_epoch);
}

bool saves_after_step(const Options& options, const LoopState& state) {
  const auto every = options.saving ? options.saving->every_n_steps : std::nullopt;
  return every && state.position.global_step % *every == 0;
}

}  // namespace trainctl::train
