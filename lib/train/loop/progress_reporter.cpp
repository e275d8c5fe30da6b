#include "train/loop/progress_reporter.hpp"

#include "base/strings.hpp"
#include "log/log.hpp"
#include "train/debug/numerics_guard.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace trainctl::train {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

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
      last_progress_(begun_),
      log_point_(at::zeros({kValues}, step.meter().sums().options())),
      values_(session.make_event(options.device)) {}

void ProgressReporter::on_run_begin(LoopState& state) {
  if (!state.resumed) return;
  begun_ = state.begun;
  reported_steps_ = state.position.global_step;
  if (!state.resumed_in_epoch) logged_.reset();  // the epoch that it is part of starts again
  if (logged_) values_.start(log_point_);
  if (!state.other_world) return;
  progress_mark_ = now();
  mark().copy_(step_.meter().sums());
}

void ProgressReporter::on_epoch_begin(LoopState& state) {
  if (state.resumed_in_epoch) return;
  progress_mark_ = {};
  mark().copy_(step_.meter().sums());
}

void ProgressReporter::on_step_end(LoopState& state) {
  if (values_.is_ready()) emit_line(state);
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
  values_.is_immediate() ? serialize_mark(archive) : serialize_log_point(archive);
  archive.group("progress_mark", [&] { progress_mark_.serialize(archive); });
  archive.value("shown_loss", &shown_loss_);
}

void ProgressReporter::serialize_mark(StateArchive& archive) {
  auto* sums = log_point_.mutable_data_ptr<double>() + kMark;
  Mark mark{sums[0], sums[1]};
  archive.group("log_mark", [&] { mark.serialize(archive); });
  sums[0] = mark.total;
  sums[1] = mark.weight;
}

/// The line of an open log point is emitted before the checkpoint is committed.
void ProgressReporter::serialize_log_point(StateArchive& archive) {
  std::int64_t open_at = logged_ ? logged_->line.global_step : 0;  // 0: no log point is open
  archive.value("log_point", &open_at);
  if (open_at > 0 && !logged_) logged_ = LogPoint{.line = {.global_step = open_at}, .emits = false};
}

std::vector<StateTensor> ProgressReporter::tensors() const {
  if (values_.is_immediate()) return {};
  return {{std::string(state_key()) + "/log_point", log_point_, /*of_rank=*/true}};
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

/// Computes the values on the device, summed over the ranks where they differ.
void ProgressReporter::compute_values() {
  const at::NoGradGuard guard;
  const at::Tensor sums = step_.meter().sums();
  const at::Tensor since = sums - mark();
  session_.communicator.sum(since, "sum of the losses");
  const GradScaler* scaler = step_.scaler();
  std::vector<at::Tensor> values{since};
  for (const at::Tensor& scalar :
       {scaler != nullptr ? scaler->longest_skipped_series() : at::Tensor(), step_.norms().gradient,
        step_.norms().parameter}) {
    values.push_back(scalar.defined() ? scalar.detach().to(at::kDouble).view({1})
                                      : at::zeros({1}, since.options()));
  }
  values.push_back(sums);
  log_point_.copy_(at::cat(values));
}

void ProgressReporter::log(LoopState& state) {
  settle(state);
  if (state.diverged) return;
  compute_values();
  values_.start(log_point_);
  const auto given = [](const at::Tensor& norm) {
    return norm.defined() ? std::optional(kNone) : std::nullopt;
  };
  logged_ = LogPoint{{state.position.epoch, state.position.global_step, kNone, state.lr,
                      phases_.now() - begun_, given(step_.norms().gradient),
                      given(step_.norms().parameter)}};
  state.line_is_open = true;
  if (values_.is_immediate()) settle(state);
}

void ProgressReporter::emit_line(LoopState& state) {
  if (logged_ && !logged_->is_read) read_values(state);
}

void ProgressReporter::read_values(LoopState& state) {
  const std::span<const double> values = values_.read("values of a log point");
  logged_->is_read = true;
  state.line_is_open = false;
  logged_->skipped = static_cast<std::int64_t>(values[kSkipped]);
  if (values[kWeight] > 0 || !step_.meter().leaves_out())
    logged_->loss = mean_loss(values[kTotal], values[kWeight]);
  if (logged_->loss) shown_loss_ = logged_->loss;
  if (!leads_ || !logged_->emits || skipped_too_often(step_, options_, logged_->skipped)) return;
  events::StepLogged& line = logged_->line;
  line.loss = logged_->loss.value_or(kNone);
  if (line.grad_norm) line.grad_norm = values[kGradNorm];
  if (line.param_norm) line.param_norm = values[kParamNorm];
  session_.emit(line);
}

void ProgressReporter::settle(LoopState& state) {
  if (!logged_) return;
  emit_line(state);
  const LogPoint point = *std::exchange(logged_, std::nullopt);
  state.diverged = skipped_too_often(step_, options_, point.skipped,
                                     state.position.global_step - point.line.global_step);
  if (state.diverged) return;
  state.logged_loss = point.loss;
  state.logged_step = point.line.global_step;
  if (point.loss && !std::isfinite(*point.loss))
    state.diverged = {fmt::format("the training loss is {}", *point.loss)};
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
  // If a graph contains the exchange, neither its time nor that of the own work is known.
  if (timing.graph_s > 0 && !sync_.bucket_bytes().empty())
    share.step_s = share.allreduce_exposed_s = share.overlapped_s = share.exposed_s =
        share.overlap = kNone;
  share.payload_bytes = exchanged.payload_bytes;
  share.wire_bytes = exchanged.wire_bytes;
  share.bucket_bytes = sync_.bucket_bytes();
  session_.emit(share);
}

}  // namespace trainctl::train
