#include "train/state/checkpointer.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"

#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <system_error>
#include <thread>

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;

constexpr auto kPause = std::chrono::milliseconds(2);

/// Return the path of an empty file next to a part. It says that the rank gives up, or that it
/// refuses to save its state, so that rank 0 does not wait. An empty file fits on a full disk.
fs::path failure_sign(const fs::path& part) { return fs::path(part).concat(".failed"); }
fs::path refusal_sign(const fs::path& part) { return fs::path(part).concat(".refused"); }

/// Returns whether the exception that is being handled says that the state diverged.
bool is_refusal() {
  try {
    throw;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::diverged;
  } catch (...) {
    return false;
  }
}

/// Consecutive failures before the run ends; the time limit keeps frequent saves from ending it
/// while somebody frees space.
constexpr int kMostFailures = 3;
constexpr double kLongestFailing = 300;  // seconds

/// Measures the time that the training waits for a save.
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

CheckpointWriter::CheckpointWriter(Options options, const std::atomic<bool>& canceled)
    : options_(std::move(options)), cancelled_(canceled), store_(options_.folder) {}

WriteOutcome CheckpointWriter::run(const WriteJob& job) {
  WriteOutcome outcome;
  outcome.name = checkpoint::folder_name(job.manifest.moment());
  try {
    if (options_.place.rank == 0) {
      lead(job, outcome);
    } else {
      follow(job, outcome);
    }
  } catch (const std::exception& error) {
    outcome.refused = is_refusal();
    const std::string text = error.what();
    outcome.failure = text.substr(0, text.find("\nhint: "));
  } catch (...) {
    outcome.failure = "an exception of unknown type";
  }
  return outcome;
}

void CheckpointWriter::lead(const WriteJob& job, WriteOutcome& outcome) {
  const fs::path checkpoint = store_.begin(job.manifest.moment());
  try {
    publish(job, checkpoint);
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    try {
      store_.abandon(checkpoint);
    } catch (const Error&) {  // the next save tries again; the cause is rethrown
    }
    std::rethrow_exception(cause);
  }
  outcome.committed = true;
  tidy(checkpoint);
}

void CheckpointWriter::publish(const WriteJob& job, const fs::path& checkpoint) {
  await_state(job);
  checkpoint::StoredOnce stored = checkpoint::store_once(store_, checkpoint, job.entries);
  container::write(checkpoint::Store::part(checkpoint, 0), stored.part, job.meta);
  checkpoint::Manifest manifest = job.manifest;
  manifest.shared = std::move(stored.shared);
  manifest.parts.clear();
  for (int rank = 0; rank < options_.place.world_size; ++rank) {
    const fs::path part = checkpoint::Store::part(checkpoint, rank);
    await(part, rank);
    manifest.parts.push_back(
        {part.filename().string(), fs::file_size(part), container::stored_checksum(part)});
  }
  await_history(job);
  store_.commit(checkpoint, manifest);
}

/// Polls, so that a save can be canceled while a collective with a lost rank blocks the device.
void CheckpointWriter::await_state(const WriteJob& job) const {
  while (job.is_copied && !job.is_copied()) {
    ENSURE(resource, !cancelled_, "the save was canceled");
    std::this_thread::sleep_for(kPause);
  }
  const std::string obstacle = job.obstacle ? job.obstacle() : std::string();
  ENSURE(diverged, obstacle.empty(), "{}", obstacle);
}

/// Waits so that a run resumed from here has all lines of its history, even if all its processes
/// are killed now. If the supervisor is blocked, the checkpoint is still written.
void CheckpointWriter::await_history(const WriteJob& job) const {
  if (!job.history_is_stored) return;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.history_deadline_s);
  while (!job.history_is_stored() && !cancelled_ && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPause);
}

/// Runs after the commit, so a failure here does not invalidate the checkpoint.
void CheckpointWriter::tidy(const fs::path& checkpoint) {
  store_.point(checkpoint::Link::last, checkpoint);
  const std::vector<checkpoint::StoredCheckpoint> found = store_.list();
  const std::vector<std::string> best = best_names(found, options_.ranking, options_.top_k);
  if (!best.empty()) store_.point(checkpoint::Link::best, options_.folder / best.front());
  if (options_.top_k >= 0) store_.prune(best);
}

void CheckpointWriter::follow(const WriteJob& job, WriteOutcome& outcome) {
  const fs::path checkpoint = options_.folder / outcome.name;
  const fs::path part = checkpoint::Store::part(checkpoint, options_.place.rank);
  await(checkpoint, std::nullopt);
  try {
    await_state(job);
    container::write(part, job.entries, job.meta);
    outcome.committed = true;
  } catch (...) {
    std::ofstream{is_refusal() ? refusal_sign(part) : failure_sign(part)};
    throw;
  }
}

void CheckpointWriter::await(const fs::path& path, std::optional<int> rank) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.part_deadline_s);
  std::error_code ignored;
  while (!fs::exists(path, ignored)) {
    ENSURE(resource, !cancelled_, "the save was canceled");
    ENSURE(diverged, !rank || !fs::exists(refusal_sign(path), ignored),
           "the state of rank {} diverged", *rank);
    ENSURE(resource, !rank || !fs::exists(failure_sign(path), ignored),
           "another rank could not write {}", path.filename().string());
    ENSURE(resource, std::chrono::steady_clock::now() < deadline,
           "{} was not written within {:g} s", printable(path.string()), options_.part_deadline_s);
    std::this_thread::sleep_for(kPause);
  }
}

std::vector<std::string> best_names(const std::vector<checkpoint::StoredCheckpoint>& found,
                                    const Ranking& ranking, std::int64_t most) {
  std::vector<const checkpoint::StoredCheckpoint*> ranked;
  for (const checkpoint::StoredCheckpoint& one : found) {
    if (one.manifest && one.manifest->value && one.manifest->monitor == ranking.monitor)
      ranked.push_back(&one);
  }
  std::ranges::sort(ranked, [&](const auto* a, const auto* b) {
    const double left = *a->manifest->value, right = *b->manifest->value;
    if (left == right) return a->moment < b->moment;
    return ranking.mode == spec::Mode::min ? left < right : left > right;
  });
  std::vector<std::string> names;
  for (const checkpoint::StoredCheckpoint* one : ranked) {
    if (most >= 0 && std::cmp_greater_equal(names.size(), most)) break;
    names.push_back(one->name);
  }
  return names;
}

CheckpointSaver::CheckpointSaver(const Session& session, const Options& options)
    : session_(session),
      saving_(*options.saving),
      may_skip_(options.may_skip),
      place_(session.communicator.rank_info()),
      folder_(session.run_dir / "checkpoints"),
      writer_({.folder = folder_,
               .place = place_,
               .ranking = {options.monitor, options.mode},
               .top_k = saving_.top_k},
              cancelled_),
      copies_(options.device, session.make_event(options.device)) {
  if (!leads()) return;
  checkpoint::Store store(folder_);
  std::vector<std::string> all;
  for (const checkpoint::StoredCheckpoint& found : store.list()) all.push_back(found.name);
  store.prune(all);
}

CheckpointSaver::~CheckpointSaver() {
  cancelled_ = true;
  if (pending_write_.valid()) pending_write_.wait();
}

void CheckpointSaver::begin(const fs::path& resumed_from) {
  std::error_code failure;
  const bool is_own =
      !resumed_from.empty() && fs::equivalent(resumed_from.parent_path(), folder_, failure);
  const auto from =
      is_own ? checkpoint::parse_folder_name(resumed_from.filename().string()) : std::nullopt;
  if (from) last_ = committed_ = from;
  if (!leads()) return;
  for (const checkpoint::StoredCheckpoint& found : checkpoint::Store(folder_).list()) {
    ENSURE(checkpoint, from && found.moment <= *from,
           "the checkpoint {} {}\nhint: move that checkpoint to another folder, or resume from it",
           printable(found.path.string()),
           from ? "is newer than the one that this run resumes from"
                : "already exists, but this run does not resume from it");
  }
}

void CheckpointSaver::check_space(std::uint64_t bytes) const {
  constexpr std::uint64_t kAtOnce = 3;  // two checkpoints are kept while a third is being written
  std::error_code failure;
  const fs::space_info space = fs::space(session_.run_dir, failure);
  if (failure) return;  // the first save will report the failure
  ENSURE(resource, space.available >= bytes,
         "a checkpoint takes about {}, but the disk of {} has {} left\nhint: free disk space{}",
         human_bytes(bytes), printable(session_.run_dir.string()), human_bytes(space.available),
         saving_.weights_only ? "" : ", or set checkpoint.save_weights_only=true");
  if (space.available >= kAtOnce * bytes) return;
  session_.emit(events::Warning{
      fmt::format("the disk of {} has {} left, but up to {} checkpoints of {} exist at a time",
                  printable(session_.run_dir.string()), human_bytes(space.available), kAtOnce,
                  human_bytes(bytes)),
      {}});
}

void CheckpointSaver::take(const std::vector<stage::NamedTensor>& tensors, Json meta) {
  settle();
  exposed_s_ = 0;
  const Exposed exposed(session_.clock, exposed_s_);
  copies_.take(tensors);
  meta_ = std::move(meta);
}

void CheckpointSaver::write(const About& about) {
  about_ = about;
  last_ = about.moment;
  ++started_;
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
  job_.is_copied = [this] { return copies_.complete(); };
  if (copies_late()) job_.obstacle = [this] { return obstacle_to_save(job_.entries, may_skip_); };
  if (const events::Heartbeat* page = session_.heartbeat)
    job_.history_is_stored = [page, written = page->num_written.load()] {
      return page->has_recorded(written);
    };
  cancelled_ = false;
  pending_write_ = std::async(std::launch::async, [this] { return writer_.run(job_); });
  if (!saving_.asynchronous) settle();
}

void CheckpointSaver::poll() {
  if (!pending_write_.valid()) return;
  if (pending_write_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void CheckpointSaver::finish() {
  if (!pending_write_.valid()) return;
  const WriteOutcome outcome = pending_write_.get();
  ended_ = 2 * started_ + (outcome.committed ? 1 : 0);
  report(outcome);
}

/// Rank 0 knows when everything is written, and nobody waits for a part that another rank has not
/// written by then.
void CheckpointSaver::settle() {
  if (leads() && pending_write_.valid()) {
    const Exposed exposed(session_.clock, exposed_s_);
    pending_write_.wait();
  }
  if (leads()) finish();
  if (place_.world_size == 1 || started_ == 0) return;
  if (agreed_ / 2 < started_) {
    const at::Tensor ended = at::full({1}, leads() ? ended_ : 0, at::kInt);
    session_.communicator.sum(ended, "end of a save");
    agree(*ended.const_data_ptr<std::int32_t>());
  }
  if (leads()) return;
  cancelled_ = true;
  finish();
  committed_ = agreed_ % 2 > 0 ? last_ : std::nullopt;
}

void CheckpointSaver::report(const WriteOutcome& outcome) {
  if (!leads()) {
    if (!outcome.committed && !outcome.refused && !cancelled_)
      session_.emit(events::Warning{fmt::format("rank {}: cannot save its part of {}: {}",
                                                place_.rank, outcome.name, outcome.failure),
                                    {}});
    return;
  }
  if (outcome.refused) {  // the run fails at the next log point or at the end of the epoch
    session_.emit(
        events::Warning{fmt::format("the checkpoint of step {} is not saved: {}",
                                    with_thousands(about_.moment.global_step), outcome.failure),
                        {}});
    return;
  }
  if (!outcome.committed) return count_failure(outcome.failure);
  failures_ = 0;
  committed_ = about_.moment;
  session_.emit(events::CheckpointSaved{.path = "checkpoints/" + outcome.name,
                                        .epoch = about_.event_epoch,
                                        .global_step = about_.moment.global_step,
                                        .metric = "",
                                        .value = 0,
                                        .verified = true,
                                        .exposed_s = exposed_s_});
  if (!outcome.failure.empty())
    session_.emit(events::Warning{fmt::format("checkpoint {} is saved, but cleanup failed: {}",
                                              outcome.name, outcome.failure),
                                  {}});
}

void CheckpointSaver::count_failure(const std::string& failure) {
  const double now = session_.clock.now();
  if (++failures_ == 1) failing_since_ = now;
  const double failing_s = now - failing_since_;
  const std::string older = older_one();
  const std::string what = fmt::format("cannot save the checkpoint of step {}: {}",
                                       with_thousands(about_.moment.global_step), failure);
  ENSURE(resource, tolerates_ || !older.empty(), "{}; there is no older checkpoint", what);
  ENSURE(resource, tolerates_ || failures_ < kMostFailures || failing_s < kLongestFailing,
         "{}; {} consecutive saves failed within {:.0f} s; the newest checkpoint is {}", what,
         failures_, failing_s, older);
  const std::string rest =
      older.empty() ? "there is no older checkpoint" : "the newest checkpoint is " + older;
  session_.emit(events::Warning{fmt::format("{}; {}", what, rest), {}});
}

std::string CheckpointSaver::older_one() const {
  try {
    for (const checkpoint::StoredCheckpoint& found : checkpoint::Store(folder_).list()) {
      if (found.manifest) return found.name;
    }
  } catch (const Error&) {  // the folder cannot be read
  }
  return {};
}

void Checkpointer::on_run_begin(LoopState& state) {
  state.saved_at = parts_.session.clock.now();
  parts_.saver.begin(state.resumed_from);
  if (parts_.session.communicator.rank_info().rank == 0)
    parts_.saver.check_space(parts_.training.expected_bytes());
}

/// If the run ends after this step, the end of the run is saved instead.
void Checkpointer::on_step_save(LoopState& state) {
  if (state.stop == Stop::signal || ends_early(state)) return;
  if (!state.line_is_open) write_copy(state);
  parts_.saver.poll();
  state.ended_saves = parts_.saver.ended();
  parts_.saver.agree(state.agreed_saves);
  const bool by_steps = saves_after_step(parts_.options, state);
  const bool is_best = is_validated(state) && state.report.improved && parts_.options.save_on_best;
  if (!by_steps && !is_best && !state.save_agreed) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  parts_.saver.copies_late() ? copy(state) : check_and_copy(state);
  unwritten_ = about(state, by_steps ? "every_n_steps" : is_best ? "best" : "every_t");
  if (!state.line_is_open || !parts_.options.saving->asynchronous) write_copy(state);
}

/// A resumed run does not emit the line of the last log point again, so the checkpoint is committed
/// after the line.
void Checkpointer::write_copy(LoopState& state) {
  if (!unwritten_) return;
  parts_.emit_line(state);
  parts_.saver.write(*std::exchange(unwritten_, std::nullopt));
}

/// An epoch that max_steps or max_time cuts short is evaluated early, but a longer run trains its
/// remaining batches: the checkpoint holds the state from before the evaluation.
void Checkpointer::on_train_epoch_end(LoopState& state) {
  write_copy(state);
  if (state.position.step_in_epoch >= state.position.steps_in_epoch) return;
  const PhaseScope scope(parts_.phases, Part::checkpoint, events::Phase::checkpoint);
  parts_.saver.settle();
  const char* reason = ends_early(state)                      ? "early_stopping"
                       : at_step_limit(parts_.options, state) ? "max_steps"
                                                              : "max_time";
  truncated_epoch_ = about(state, reason);
  if (!parts_.saver.has(truncated_epoch_->moment)) copy(state);
}

void Checkpointer::on_epoch_end(LoopState& state) {
  reason_ = nullptr;
  if (truncated_epoch_ || state.stop == Stop::signal || state.decision.diverged) return;
  if ((state.position.epoch + 1) % parts_.options.save_every == 0) {
    reason_ = "every_n_epochs";
  } else if (state.report.improved && parts_.options.save_on_best) {
    reason_ = "best";
  }
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

/// Waits for the last save, and all ranks learn whether it succeeded.
void Checkpointer::on_train_end(LoopState& state) {
  if (!state.epoch_done) truncated_epoch_.reset();  // a signal came during its validation
  parts_.phases.enter(events::Phase::checkpoint);
  write_copy(state);
  parts_.saver.tolerate_failures();
  parts_.saver.settle();
  const bool asked = state.stop == Stop::signal;
  const checkpoint::Moment end = truncated_epoch_ ? truncated_epoch_->moment : state.moment();
  if (!parts_.saver.has(end)) {
    if (!truncated_epoch_)
      check_and_copy(state);  // otherwise its save has failed, and the copy is still there
    parts_.saver.write(truncated_epoch_ ? *truncated_epoch_
                                        : about(state, asked ? "signal" : "exit"));
    parts_.saver.settle();
  }
  const bool saved = parts_.saver.has(end);
  state.end_is_saved = saved && !parts_.options.saving->weights_only;
  ENSURE(resource, saved || asked, "the run ended, but its last checkpoint could not be saved");
}

/// After an epoch the weights have just been checked.
void Checkpointer::check_and_copy(LoopState& state) {
  if (!state.epoch_done) parts_.check(state);
  copy(state);
}

void Checkpointer::copy(LoopState& state) {
  write_copy(state);
  const std::vector<stage::NamedTensor> tensors = parts_.training.tensors();
  parts_.saver.take(tensors, parts_.training.values());
  state.saved_at = parts_.session.clock.now();
}

CheckpointSaver::About Checkpointer::about(const LoopState& state, const char* reason) const {
  return {.moment = state.moment(),
          .step_in_epoch = state.next().step_in_epoch,
          .samples_in_epoch = state.epoch_done ? 0 : state.samples,
          .reason = reason,
          .value = state.epoch_done || is_validated(state) ? state.monitored : std::nullopt,
          .event_epoch = state.position.epoch,
          .buckets = parts_.sync.layout()};
}

}  // namespace trainctl::train
