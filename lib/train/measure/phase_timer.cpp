#include "train/measure/phase_timer.hpp"

#include <dlfcn.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace trainctl::train {
namespace {

using events::kTimingPhases;
using events::PhaseKind;
using torch::profiler::impl::cudaStubs;

constexpr std::size_t index_of(Part part) { return static_cast<std::size_t>(part); }
static_assert(index_of(Part::other) + 1 == kParts);

const events::TimingPhase& phase_of(Part part) { return kTimingPhases[index_of(part)]; }

bool is_on_device(Part part) { return phase_of(part).kind == PhaseKind::device; }

}  // namespace

PartTimer::PartTimer(const Clock& clock, std::unique_ptr<device::EventTimer> line)
    : clock_(clock), line_(std::move(line)), begun_(clock.now()), last_(begun_) {}

void PartTimer::begin_epoch() {
  host_.fill(0);
  device_.fill(0);
  first_batch_ = -1;
  not_moved_ = 0;
  current_ = Part::other;
  begun_ = last_ = clock_.now();
}

void PartTimer::enter(Part part) {
  if (paused_) return;
  const double now = clock_.now();
  host_[index_of(current_)] += now - last_;
  last_ = now;
  if (part == Part::h2d && first_batch_ < 0) first_batch_ = now - begun_;
  if (line_ && (is_on_device(current_) || is_on_device(part)))
    line_->mark(static_cast<int>(current_));
  if (ranges_ != nullptr) ranges_->enter(part);
  current_ = part;
}

void PartTimer::move(Part from, Part to, double seconds) {
  Seconds& times = line_ ? device_ : host_;
  const double all = std::exchange(not_moved_, 0) + std::max(seconds, 0.0);
  const double moved = std::min(all, times[index_of(from)]);
  times[index_of(from)] -= moved;
  times[index_of(to)] += moved;
  if (line_) not_moved_ = all - moved;
}

void PartTimer::end_step() {
  if (line_ && !paused_) add_device_times(line_->end_step());
}

void PartTimer::add_device_times(const std::vector<double>& seconds) {
  for (std::size_t i = 0; i < kParts; ++i) {
    if (kTimingPhases[i].kind == PhaseKind::device) device_[i] += seconds[i];
  }
}

PartTimer::Seconds PartTimer::with_device_times(double wall) const {
  double training = wall;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (kTimingPhases[i].kind == PhaseKind::outside) training -= host_[i];
  }
  const double busy = std::accumulate(device_.begin(), device_.end(), 0.0);
  const double scale = busy > training && busy > 0 ? training / busy : 1.0;
  double idle = std::max(training - busy * scale, 0.0);
  Seconds all = host_;
  for (std::size_t i = 0; i < index_of(Part::other); ++i) {
    if (kTimingPhases[i].kind == PhaseKind::device) all[i] = device_[i] * scale;
    if (kTimingPhases[i].kind != PhaseKind::host) continue;
    all[i] = std::min(host_[i], idle);
    idle -= all[i];
  }
  all[index_of(Part::other)] = idle;
  return all;
}

events::Timing PartTimer::end_epoch(std::int64_t samples) {
  enter(Part::other);
  if (line_) {
    add_device_times(line_->finish());
    move(Part::backward, Part::allreduce, 0);
  }
  events::Timing timing = so_far();
  timing.samples = samples;
  timing.samples_per_s = training_rate(timing);
  return timing;
}

events::Timing PartTimer::so_far() const {
  events::Timing timing;
  timing.wall_s = last_ - begun_;
  const Seconds parts = line_ ? with_device_times(timing.wall_s) : host_;
  for (std::size_t i = 0; i < kParts; ++i) timing.*kTimingPhases[i].seconds = parts[i];
  timing.first_batch_s = std::max(first_batch_, 0.0);
  return timing;
}

void serialize_times(events::Timing& timing, StateArchive& archive) {
  archive.value("wall_s", &timing.wall_s);
  for (const events::TimingPhase& phase : kTimingPhases) {
    if (archive.has(phase.key)) archive.value(phase.key, &(timing.*phase.seconds));
  }
}

bool PartRanges::available() {
  // The functions are registered by libtorch_cuda.so, which the engine for CPUs does not link.
  if (!cudaStubs()->enabled()) ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_LOCAL);
  return cudaStubs()->enabled();
}

PartRanges::~PartRanges() {
  end_part();
  end_step();
}

void PartRanges::begin_step() {
  end_part();
  end_step();
  cudaStubs()->rangePush("step");
  in_step_ = true;
}

void PartRanges::enter(Part part) {
  end_part();
  const events::TimingPhase& phase = phase_of(part);
  if (phase.kind == PhaseKind::outside) end_step();
  if (*phase.range == '\0') return;
  cudaStubs()->rangePush(phase.range);
  in_part_ = true;
}

void PartRanges::end_part() {
  if (std::exchange(in_part_, false)) cudaStubs()->rangePop();
}

void PartRanges::end_step() {
  if (std::exchange(in_step_, false)) cudaStubs()->rangePop();
}

}  // namespace trainctl::train
