#include "report/sinks/sink.hpp"

#include "base/error.hpp"

namespace trainctl::report {
namespace {

constexpr std::size_t kMostWaiting = 1 << 14;
constexpr double kShortestPause = 5;
constexpr double kLongestPause = 600;

}  // namespace

Json step_line(const events::StepLogged& step) {
  Json line{{"type", "step"},
            {"epoch", step.epoch + 1},
            {"step", step.global_step},
            {"elapsed_s", json_number(step.elapsed_s)},
            {"lr", json_number(step.lr)},
            {"train/loss", json_number(step.loss)}};
  if (step.grad_norm) line["grad_norm"] = json_number(*step.grad_norm);
  if (step.param_norm) line["param_norm"] = json_number(*step.param_norm);
  return line;
}

void Backlog::add(Write write) {
  if (waiting_.size() == kMostWaiting) {
    waiting_.pop_front();
    ++lost_;
  }
  waiting_.push_back(std::move(write));
  drain();
}

void Backlog::drain() {
  try {
    while (!waiting_.empty()) {
      waiting_.front()();
      waiting_.pop_front();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    failure_ = without_hint(error.what());
  }
}

void Backlog::on_tick(double now) {
  now_ = now;
  drain();
}

void Backlog::close() {
  drain();
  ENSURE(resource, waiting_.empty(), "the last logged values are lost: {}", failure_);
}

std::optional<std::string> Backlog::take_warning() {
  if (waiting_.empty()) {
    if (!std::exchange(is_reported_, false)) return std::nullopt;
    pause_ = 0;
    const std::size_t lost = std::exchange(lost_, 0);
    return lost == 0
               ? "the buffered values are written"
               : fmt::format("the buffered values are written, but the oldest {} are lost", lost);
  }
  if (now_ < next_report_) return std::nullopt;
  is_reported_ = true;
  pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
  next_report_ = now_ + pause_;
  return failure_ + "; the run continues, and logged values are buffered";
}

}  // namespace trainctl::report
