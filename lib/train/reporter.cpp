#include "train/reporter.hpp"

#include <ATen/ops/empty.h>

namespace trainctl::train {
namespace {

constexpr double kProgressInterval = 0.2;  // seconds

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

void Reporter::emit(const events::Event& event) const { session_.emit(event); }

std::optional<double> Reporter::recent_loss(const LossMeter& meter) {
  if (reads_freely_ && meter.rows() > progress_mark_.rows) {
    const double total = meter.total();
    shown_loss_ = (total - progress_mark_.total) / static_cast<double>(meter.rows() - progress_mark_.rows);
    progress_mark_ = {total, meter.rows()};
  }
  return shown_loss_;
}

void Reporter::step(events::Phase phase, const Position& position, double now, const LossMeter* meter) {
  if (session_.heartbeat != nullptr) session_.heartbeat->stamp(phase, position.global_step);
  if (!speaks_ || now - last_progress_ < kProgressInterval) return;
  last_progress_ = now;
  emit(events::Progress{phase, position.epoch, position.step_in_epoch, position.steps_in_epoch, position.global_step,
                        meter != nullptr ? recent_loss(*meter) : shown_loss_});
}

double Reporter::log(const Position& position, double lr, double now, const LossMeter& meter) {
  const double total = meter.total();
  const at::Tensor sums = at::empty({2}, at::kDouble);
  auto* values = sums.mutable_data_ptr<double>();
  values[0] = total - log_mark_.total;
  values[1] = static_cast<double>(meter.rows() - log_mark_.rows);
  log_mark_ = {total, meter.rows()};
  session_.communicator.sum(sums, "sum of the losses");
  const double loss = values[0] / values[1];
  shown_loss_ = loss;
  if (speaks_) emit(events::StepLogged{position.epoch, position.global_step, loss, lr, now - begun_});
  return loss;
}

}  // namespace trainctl::train
