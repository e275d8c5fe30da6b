#include "train/loop/progress_reporter.hpp"

#include "base/strings.hpp"
#include "log/log.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <limits>

namespace trainctl::train {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds

std::optional<double> read(const at::Tensor& scalar) {
  return scalar.defined() ? std::optional(scalar.item<double>()) : std::nullopt;
}

}  // namespace

Reporter::Reporter(const Session& session, at::Device device)
    : session_(session),
      speaks_(session.communicator.place().rank == 0),
      reads_freely_(device.is_cpu()),
      begun_(session.clock.now()),
      last_progress_(begun_) {}

void Reporter::begin_epoch() {
  progress_mark_ = {};
  log_mark_ = {};
}

void Reporter::begin_at(const LossMeter& meter) {
  log_mark_ = {meter.total(), meter.weight()};
  progress_mark_ = log_mark_;
}

void Reporter::emit(const events::Event& event) const { session_.emit(event); }

void Reporter::memorise(Memo& memo) {
  memo.group("log_mark", [&] { log_mark_.memorise(memo); });
  memo.group("progress_mark", [&] { progress_mark_.memorise(memo); });
  memo.value("shown_loss", &shown_loss_);
}

std::optional<double> Reporter::recent_loss(const LossMeter& meter) {
  if (reads_freely_ && meter.weight() > progress_mark_.weight) {
    const Mark now{meter.total(), meter.weight()};
    shown_loss_ = (now.total - progress_mark_.total) / (now.weight - progress_mark_.weight);
    progress_mark_ = now;
  }
  return shown_loss_;
}

void Reporter::step(events::Phase phase, const Position& position, double now,
                    const LossMeter* meter) {
  if (session_.heartbeat != nullptr) session_.heartbeat->stamp(phase, position.global_step);
  if (!speaks_ || now - last_progress_ < kProgressInterval) return;
  last_progress_ = now;
  emit(events::Progress{phase, position.epoch, position.step_in_epoch, position.steps_in_epoch,
                        position.global_step,
                        meter != nullptr ? recent_loss(*meter) : shown_loss_});
}

std::optional<double> Reporter::log(const Position& position, double lr, double now,
                                    const StepRunner& step) {
  const Mark mark{step.meter().total(), step.meter().weight()};
  const at::Tensor sums = at::empty({2}, at::kDouble);
  auto* values = sums.mutable_data_ptr<double>();
  values[0] = mark.total - log_mark_.total;
  values[1] = mark.weight - log_mark_.weight;
  log_mark_ = mark;
  session_.communicator.sum(sums, "sum of the losses");
  std::optional<double> loss;
  if (values[1] > 0 || !step.meter().leaves_out()) loss = mean_loss(values[0], values[1]);
  if (loss) shown_loss_ = loss;
  if (speaks_) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    emit(events::StepLogged{position.epoch, position.global_step, loss.value_or(kNone), lr,
                            now - begun_, read(step.norms().gradient),
                            read(step.norms().parameter)});
  }
  return loss;
}

void SkippedReport::tell(const std::string& split, const data::Loader& loader,
                         const EventSink& emit) {
  for (const data::SkippedSample& sample : loader.skipped()) {
    if (!told_.insert(split + '\0' + sample.name).second) continue;
    const std::string text = fmt::format("dataset.{}: another sample takes the place of {}: {}",
                                         split, sample.name, sample.reason);
    log::get().warn("{}", printable(text));  // the rank's log, which stays in the run folder
    emit(events::Warning{text, split + "/" + sample.name});
  }
}

events::RankEpoch rank_epoch(const RankShare& share) {
  const events::Timing& timing = share.ended.timing;
  const dist::SyncStats& exchanged = share.exchanged;
  const double exchange_s = exchanged.overlapped_s + exchanged.exposed_s;
  events::RankEpoch told;
  told.rank = share.rank;
  told.epoch = share.ended.epoch;
  told.global_step = share.ended.global_step;
  told.steps = share.steps;
  told.wall_s = timing.wall_s - timing.eval_s - timing.checkpoint_s;
  told.data_wait_s = timing.data_wait_s;
  told.step_s = timing.h2d_s + timing.forward_s + timing.backward_s + timing.optimizer_s;
  told.allreduce_exposed_s = timing.allreduce_exposed_s;
  told.overlapped_s = exchanged.overlapped_s;
  told.exposed_s = exchanged.exposed_s;
  told.overlap = exchange_s > 0 ? exchanged.overlapped_s / exchange_s : 0;
  told.payload_bytes = exchanged.payload_bytes;
  told.wire_bytes = exchanged.wire_bytes;
  told.bucket_bytes = share.bucket_bytes;
  return told;
}

}  // namespace trainctl::train
