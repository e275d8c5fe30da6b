#include "train/loop/progress_reporter.hpp"

#include "base/strings.hpp"
#include "log/log.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace trainctl::train {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::optional<double> read(const at::Tensor& scalar) {
  return scalar.defined() ? std::optional(scalar.item<double>()) : std::nullopt;
}

/// Returns the seconds of the rank's own work: the device phases except the exchange of gradients.
double own_work_s(const events::Timing& timing) {
  double seconds = 0;
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const bool is_exchange = phase.seconds == &events::Timing::allreduce_exposed_s;
    if (phase.kind == events::PhaseKind::device && !is_exchange) seconds += timing.*phase.seconds;
  }
  return seconds;
}

}  // namespace

ProgressReporter::ProgressReporter(const Session& session, const Options& options,
                                   const Phases& phases, const StepRunner& step,
                                   const dist::GradSync& sync)
    : session_(session),
      options_(options),
      phases_(phases),
      step_(step),
      sync_(sync),
      leads_(session.communicator.rank_info().rank == 0),
      begun_(session.clock.now()),
      last_progress_(begun_) {}

void ProgressReporter::on_run_begin(LoopState& state) {
  if (!state.resumed) return;
  begun_ = state.begun;
  reported_steps_ = state.position.global_step;
  if (state.other_world) progress_mark_ = log_mark_ = now();
}

void ProgressReporter::on_epoch_begin(LoopState& state) {
  if (!state.resumed_in_epoch) progress_mark_ = log_mark_ = {};
}

void ProgressReporter::on_step_end(LoopState& state) {
  if (logs_step(options_, state)) log(state);
  if (!state.diverged) show(events::Phase::train, state.position, phases_.now());
}

void ProgressReporter::on_validation_batch_end(LoopState& state) {
  show(events::Phase::validate, state.validation, session_.clock.now());
}

void ProgressReporter::on_validation_end(LoopState& state) {
  for (events::TableRow& row : state.tables) {
    row.epoch = state.position.epoch;
    if (leads_) session_.emit(row);
  }
  report_skipped("train", session_.train);
  if (session_.validation != nullptr) report_skipped("val", *session_.validation);
}

/// The rank's own report covers this process only. The epoch's report includes the time of earlier
/// processes; only device, CPU and disk utilization are of this process.
void ProgressReporter::on_epoch_report(LoopState& state) {
  if (session_.communicator.rank_info().world_size > 1) report_rank(state);
  if (!leads_) return;
  events::EpochEnded ended = state.report;
  add_times(ended.timing, state.earlier);
  ended.timing.samples = state.samples;
  ended.timing.samples_per_s = training_rate(ended.timing);
  session_.emit(ended);
}

void ProgressReporter::on_run_end(LoopState& state) {
  show(events::Phase::shutdown, state.position, session_.clock.now());
}

void ProgressReporter::serialize(StateArchive& archive) {
  archive.group("log_mark", [&] { log_mark_.serialize(archive); });
  archive.group("progress_mark", [&] { progress_mark_.serialize(archive); });
  archive.value("shown_loss", &shown_loss_);
}

void ProgressReporter::show(events::Phase phase, const Position& position, double time) {
  phases_.stamp(phase);
  if (!leads_ || time - last_progress_ < kProgressInterval) return;
  last_progress_ = time;
  // Reading the loss from a GPU would synchronize with the device.
  const bool reads_loss = phase == events::Phase::train && options_.device.is_cpu();
  if (reads_loss && now().weight > progress_mark_.weight) {
    const Mark before = std::exchange(progress_mark_, now());
    shown_loss_ = (progress_mark_.total - before.total) / (progress_mark_.weight - before.weight);
  }
  session_.emit(events::Progress{phase, position.epoch, position.step_in_epoch,
                                 position.steps_in_epoch, position.global_step, shown_loss_});
}

std::optional<double> ProgressReporter::mean_since_log() {
  const Mark before = std::exchange(log_mark_, now());
  const at::Tensor sums = at::empty({2}, at::kDouble);
  auto* values = sums.mutable_data_ptr<double>();
  values[0] = log_mark_.total - before.total;
  values[1] = log_mark_.weight - before.weight;
  session_.communicator.sum(sums, "sum of the losses");
  if (values[1] <= 0 && step_.meter().leaves_out()) return std::nullopt;
  return mean_loss(values[0], values[1]);
}

void ProgressReporter::log(LoopState& state) {
  const std::optional<double> loss = mean_since_log();
  if (loss) shown_loss_ = loss;
  state.logged_loss = loss;
  if (leads_) {
    session_.emit(events::StepLogged{state.position.epoch, state.position.global_step,
                                     loss.value_or(kNone), state.lr, phases_.now() - begun_,
                                     read(step_.norms().gradient), read(step_.norms().parameter)});
  }
  if (loss && !std::isfinite(*loss))
    state.diverged = {fmt::format("the training loss is {}", *loss)};
}

/// Warns about each damaged sample that a loader replaced (dataset.on_error: skip), once per run.
void ProgressReporter::report_skipped(const std::string& split, const data::Loader& loader) {
  for (const data::SkippedSample& sample : loader.skipped()) {
    if (!skipped_.insert(split + '\0' + sample.name).second) continue;
    const std::string text = fmt::format("dataset.{}: {} is replaced by another sample: {}", split,
                                         sample.name, sample.reason);
    log::get().warn("{}", printable(text));  // this rank's log file in the run folder
    session_.emit(events::Warning{text, split + "/" + sample.name});
  }
}

void ProgressReporter::report_rank(const LoopState& state) {
  const events::Timing& timing = state.report.timing;
  const dist::SyncStats& exchanged = state.exchanged;
  const double exchange_s = exchanged.overlapped_s + exchanged.exposed_s;
  events::RankEpoch share;
  share.rank = session_.communicator.rank_info().rank;
  share.epoch = state.report.epoch;
  share.global_step = state.report.global_step;
  share.steps = share.global_step - std::exchange(reported_steps_, share.global_step);
  share.wall_s = timing.training_s();
  share.data_wait_s = timing.data_wait_s;
  share.step_s = own_work_s(timing);
  share.allreduce_exposed_s = timing.allreduce_exposed_s;
  share.overlapped_s = exchanged.overlapped_s;
  share.exposed_s = exchanged.exposed_s;
  share.overlap = exchange_s > 0 ? exchanged.overlapped_s / exchange_s : 0;
  share.payload_bytes = exchanged.payload_bytes;
  share.wire_bytes = exchanged.wire_bytes;
  share.bucket_bytes = sync_.bucket_bytes();
  session_.emit(share);
}

}  // namespace trainctl::train
