#include "train/loop/loop_state.hpp"

#include "base/hash.hpp"

#include <algorithm>

namespace trainctl::train {

void Position::memorise(Memo& memo) {
  std::int64_t number = epoch + 1;  // files count from 1
  memo.value("epoch", &number);
  epoch = number - 1;
  memo.value("step_in_epoch", &step_in_epoch);
  memo.value("steps_in_epoch", &steps_in_epoch);
  memo.value("global_step", &global_step);
}

std::string RunDigest::hex() const {
  if (!is_whole_) return "";
  Hasher hasher;
  for (const std::uint64_t digest : of_epochs_) hasher.add(digest);
  return hasher.hex();
}

void RunDigest::memorise(Memo& memo) {
  memo.value("epochs", &of_epochs_);
  memo.value("is_whole", &is_whole_);
}

Position LoopState::next() const {
  Position next = position;
  if (epoch_done) {
    ++next.epoch;
    next.step_in_epoch = 0;
  }
  return next;
}

void LoopState::memorise(Memo& memo) {
  memo.group("position", [&] { position.memorise(memo); });
  memo.value("epoch_done", &epoch_done);
  memo.value("epochs_done", &epochs_done);
  memo.value("rows_in_epoch", &samples);
  memo.value("epoch_value", &monitored);
  memo.value("early_reason", &early_reason);
  memo.value("lr", &lr);
  memo.value("digest", &digest);
  memo.group("run_digest", [&] { run_digest.memorise(memo); });
}

std::optional<double> find_metric(const events::Metrics& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &events::Metrics::value_type::first);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
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
