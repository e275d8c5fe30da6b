#include "train/state/checkpointer.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <ATen/ops/zeros.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;

/// In a row, before the run ends: short saves must not end it while somebody makes room.
constexpr int kMostFailures = 3;
constexpr double kLongestFailing = 300;  // seconds

CheckpointWriter::Options writer_options(const Session& session, const Options& options) {
  return {.folder = session.run_dir / "checkpoints",
          .place = session.communicator.place(),
          .ranking = {options.monitor, options.mode},
          .top_k = options.saving->top_k};
}

bool is_in(const fs::path& checkpoint, const fs::path& folder) {
  std::error_code failure;
  return !checkpoint.empty() && fs::equivalent(checkpoint.parent_path(), folder, failure);
}

double megabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// Books the time that the training waits for a save.
class Exposed {
 public:
  Exposed(const Clock& clock, double& seconds)
      : clock_(clock), seconds_(seconds), begun_(clock.now()) {}
  ~Exposed() { seconds_ += clock_.now() - begun_; }
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;

 private:
  const Clock& clock_;
  double& seconds_;
  double begun_;
};

}  // namespace

Saver::Saver(const Session& session, const Options& options)
    : session_(session),
      saving_(*options.saving),
      place_(session.communicator.place()),
      folder_(session.run_dir / "checkpoints"),
      writer_(writer_options(session, options)) {
  if (!leads()) return;
  checkpoint::Store store(folder_);
  std::vector<std::string> all;
  for (const checkpoint::Found& found : store.list()) all.push_back(found.name);
  store.prune(all);
}

Saver::~Saver() {
  cancelled_ = true;
  if (under_way_.valid()) under_way_.wait();
}

void Saver::begin(const fs::path& resumed_from) {
  const bool goes_on = is_in(resumed_from, folder_);
  const auto from =
      goes_on ? checkpoint::parse_folder_name(resumed_from.filename().string()) : std::nullopt;
  if (from) last_ = committed_ = from;
  if (leads()) expect_none_behind(from);
}

void Saver::expect_none_behind(const std::optional<checkpoint::Moment>& from) const {
  for (const checkpoint::Found& found : checkpoint::Store(folder_).list()) {
    ENSURE(checkpoint, from && found.moment <= *from,
           "{} is newer than where this run {}: move it away, or go on from it",
           printable(found.path.string()), from ? "goes on" : "begins");
  }
}

void Saver::check_space(std::uint64_t bytes) const {
  constexpr std::uint64_t kAtOnce = 3;  // two are kept while another one is written
  std::error_code failure;
  const fs::space_info space = fs::space(session_.run_dir, failure);
  if (failure) return;  // the first save will tell
  ENSURE(resource, space.available >= bytes,
         "a checkpoint takes about {:.1f} MB, and {} has {:.1f} MB left: free some{}",
         megabytes(bytes), printable(session_.run_dir.string()), megabytes(space.available),
         saving_.weights_only ? "" : ", or set checkpoint.save_weights_only=true");
  if (space.available >= kAtOnce * bytes) return;
  session_.emit(events::Warning{
      fmt::format("{} has {:.1f} MB left, and checkpoints take up to {} x {:.1f} MB",
                  printable(session_.run_dir.string()), megabytes(space.available), kAtOnce,
                  megabytes(bytes)),
      {}});
}

void Saver::take(const std::vector<stage::NamedTensor>& tensors, Json meta) {
  settle();
  exposed_s_ = 0;
  const Exposed exposed(session_.clock, exposed_s_);
  copies_.take(tensors);
  meta_ = std::move(meta);
}

void Saver::write(const About& about) {
  about_ = about;
  last_ = about.moment;
  checkpoint::Manifest manifest = session_.origin;
  manifest.epoch = about.moment.epoch;
  manifest.step_in_epoch = about.step_in_epoch;
  manifest.global_step = about.moment.global_step;
  manifest.world_size = place_.world_size;
  manifest.reason = about.reason;
  manifest.value = about.value;
  manifest.monitor = writer_.monitor();
  manifest.written_at = utc_timestamp();
  manifest.facts["buckets"] = about.buckets;
  manifest.facts["samples_in_epoch"] = std::to_string(about.samples_in_epoch);
  manifest.facts["weights_only"] = saving_.weights_only ? "true" : "false";
  job_ = {copies_.entries(), meta_, std::move(manifest)};
  if (const events::Heartbeat* page = session_.heartbeat)
    job_.is_heard = [page, told = page->told.load()] { return page->has_heard(told); };
  cancelled_ = false;
  under_way_ = std::async(std::launch::async, [this] { return writer_.run(job_, cancelled_); });
  if (!saving_.asynchronous) settle();
}

void Saver::poll() {
  if (!under_way_.valid()) return;
  if (under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void Saver::finish() {
  if (under_way_.valid()) tell(under_way_.get());
}

/// Rank 0 knows when all is done; what another rank has not written by then nobody waits for.
void Saver::settle() {
  if (leads() && under_way_.valid()) {
    const Exposed exposed(session_.clock, exposed_s_);
    under_way_.wait();
  }
  if (leads()) finish();
  if (place_.world_size == 1) return;
  const at::Tensor committed = at::zeros({1}, at::kInt);
  if (leads() && last_ && has(*last_)) committed.fill_(1);
  session_.communicator.sum(committed, "end of a save");
  if (leads()) return;
  cancelled_ = true;
  finish();
  committed_ = committed.item<int>() > 0 ? last_ : std::nullopt;
}

void Saver::tell(const WriteOutcome& outcome) {
  if (!leads()) {
    if (!outcome.committed && !cancelled_)
      session_.emit(events::Warning{fmt::format("rank {}: its part of {} could not be saved: {}",
                                                place_.rank, outcome.name, outcome.failure),
                                    {}});
    return;
  }
  if (!outcome.committed) return count_failure(outcome.failure);
  failures_ = 0;
  committed_ = about_.moment;
  session_.emit(events::CheckpointSaved{.path = "checkpoints/" + outcome.name,
                                        .epoch = about_.told_epoch,
                                        .global_step = about_.moment.global_step,
                                        .metric = "",
                                        .value = 0,
                                        .verified = true,
                                        .exposed_s = exposed_s_});
  if (!outcome.failure.empty())
    session_.emit(events::Warning{
        fmt::format("{} is saved, but not all is tidy: {}", outcome.name, outcome.failure), {}});
}

void Saver::count_failure(const std::string& failure) {
  const double now = session_.clock.now();
  if (++failures_ == 1) failing_since_ = now;
  const double failing_s = now - failing_since_;
  const std::string older = older_one();
  const std::string what = fmt::format("the checkpoint of step {} could not be saved: {}",
                                       about_.moment.global_step, failure);
  ENSURE(resource, tolerates_ || !older.empty(), "{}; there is no older one", what);
  ENSURE(resource, tolerates_ || failures_ < kMostFailures || failing_s < kLongestFailing,
         "{}; these are {} failures in a row within {:.0f} s, and {} is the newest checkpoint",
         what, failures_, failing_s, older);
  const std::string rest =
      older.empty() ? "there is no older one" : "the newest one is still " + older;
  session_.emit(events::Warning{fmt::format("{}; {}", what, rest), {}});
}

std::string Saver::older_one() const {
  try {
    for (const checkpoint::Found& found : checkpoint::Store(folder_).list()) {
      if (found.manifest) return found.name;
    }
  } catch (const Error&) {  // the folder cannot be read
  }
  return {};
}

namespace {

checkpoint::Moment moment_of(const LoopState& state) {
  const Position at = state.next();
  return {at.global_step, at.epoch, at.step_in_epoch > 0};
}

}  // namespace

void Checkpointer::on_run_begin(LoopState& state) {
  state.saved_at = parts_.session.clock.now();
  parts_.saver.begin(state.resumed_from);
  if (parts_.session.communicator.place().rank == 0)
    parts_.saver.check_space(parts_.training.expected_bytes());
}

void Checkpointer::on_step_end(LoopState& state) {
  if (state.stop == Stop::signal) return;
  parts_.saver.poll();
  const bool by_steps = saves_after_step(parts_.options, state);
  if (!by_steps && !state.save_agreed) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  check_and_copy(state);
  parts_.saver.write(about(state, by_steps ? "every_n_steps" : "every_t"));
}

/// An epoch that max_steps or max_time cuts short is evaluated as it is, but a longer run trains
/// the rest of it: what is saved is the state before the evaluation.
void Checkpointer::on_train_epoch_end(LoopState& state) {
  if (state.position.step_in_epoch >= state.position.steps_in_epoch) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  parts_.saver.settle();
  truncated_epoch_ = about(state, at_step_limit(parts_.options, state) ? "max_steps" : "max_time");
  if (!parts_.saver.has(truncated_epoch_->moment)) copy(state);
}

void Checkpointer::on_epoch_end(LoopState& state) {
  const bool saves_later = truncated_epoch_ || state.stop == Stop::signal;
  reason_ = saves_later || state.decision.diverged ? nullptr : reason_after_epoch(state);
  if (reason_ == nullptr) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  copy(state);
}

void Checkpointer::on_epoch_report(LoopState& state) {
  if (reason_ == nullptr && !truncated_epoch_) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  if (const char* reason = std::exchange(reason_, nullptr))
    parts_.saver.write(about(state, reason));
  if (!truncated_epoch_) return;
  truncated_epoch_->value = state.monitored;
  if (!parts_.saver.has(truncated_epoch_->moment)) parts_.saver.write(*truncated_epoch_);
}

/// The last one is waited for, and all ranks learn whether it is there.
void Checkpointer::on_train_end(LoopState& state) {
  if (!state.epoch_done) truncated_epoch_.reset();  // a signal came during its validation
  parts_.phases.enter(events::Phase::checkpoint);
  parts_.saver.tolerate_failures();
  parts_.saver.settle();
  const bool asked = state.stop == Stop::signal;
  const checkpoint::Moment end = truncated_epoch_ ? truncated_epoch_->moment : moment_of(state);
  if (!parts_.saver.has(end)) {
    if (!truncated_epoch_)
      check_and_copy(state);  // else its save has failed, and the copy is still there
    parts_.saver.write(truncated_epoch_ ? *truncated_epoch_
                                        : about(state, asked ? "signal" : "exit"));
    parts_.saver.settle();
  }
  const bool saved = parts_.saver.has(end);
  state.end_is_saved = saved && !parts_.options.saving->weights_only;
  ENSURE(resource, saved || asked,
         "the run came to its end, but its last checkpoint could not be saved");
}

/// After an epoch the weights have been checked a moment ago.
void Checkpointer::check_and_copy(LoopState& state) {
  if (!state.epoch_done) parts_.check(state);
  copy(state);
}

void Checkpointer::copy(LoopState& state) {
  const std::vector<stage::NamedTensor> tensors = parts_.training.tensors();
  parts_.saver.take(tensors, parts_.training.values());
  state.saved_at = parts_.session.clock.now();
}

Saver::About Checkpointer::about(const LoopState& state, const char* reason) const {
  return {.moment = moment_of(state),
          .step_in_epoch = state.next().step_in_epoch,
          .samples_in_epoch = state.epoch_done ? 0 : state.samples,
          .reason = reason,
          .value = state.epoch_done ? state.monitored : std::nullopt,
          .told_epoch = state.position.epoch,
          .buckets = parts_.sync.layout()};
}

const char* Checkpointer::reason_after_epoch(const LoopState& state) const {
  if ((state.position.epoch + 1) % parts_.options.save_every == 0) return "every_n_epochs";
  return state.report.improved && parts_.options.save_on_best ? "best" : nullptr;
}

}  // namespace trainctl::train
