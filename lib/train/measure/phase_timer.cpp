#include "train/measure/phase_timer.hpp"

#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace trainctl::train {
namespace {

constexpr std::size_t index_of(Part part) { return static_cast<std::size_t>(part); }

constexpr std::array kDeviceParts{Part::h2d, Part::forward, Part::backward, Part::allreduce,
                                  Part::optimizer};

/// All seconds of an epoch but those until its first batch.
constexpr std::array<std::pair<const char*, double events::Timing::*>, 10> kTimes{
    {{"wall_s", &events::Timing::wall_s},
     {"data_wait_s", &events::Timing::data_wait_s},
     {"h2d_s", &events::Timing::h2d_s},
     {"forward_s", &events::Timing::forward_s},
     {"backward_s", &events::Timing::backward_s},
     {"allreduce_exposed_s", &events::Timing::allreduce_exposed_s},
     {"optimizer_s", &events::Timing::optimizer_s},
     {"eval_s", &events::Timing::eval_s},
     {"checkpoint_s", &events::Timing::checkpoint_s},
     {"other_s", &events::Timing::other_s}}};

bool on_device(Part part) {
  return std::find(kDeviceParts.begin(), kDeviceParts.end(), part) != kDeviceParts.end();
}

}  // namespace

PartTimer::PartTimer(const Clock& clock, std::unique_ptr<device::EventLine> line)
    : clock_(clock), line_(std::move(line)), begun_(clock.now()), last_(begun_) {}

void PartTimer::begin_epoch() {
  host_.fill(0);
  device_.fill(0);
  first_batch_ = -1;
  current_ = Part::other;
  begun_ = last_ = clock_.now();
}

void PartTimer::enter(Part part) {
  if (paused_) return;
  const double now = clock_.now();
  host_[index_of(current_)] += now - last_;
  last_ = now;
  if (part == Part::h2d && first_batch_ < 0) first_batch_ = now - begun_;
  if (line_ && (on_device(current_) || on_device(part))) line_->mark(static_cast<int>(current_));
  if (ranges_ != nullptr) ranges_->enter(part);
  current_ = part;
}

void PartTimer::move(Part from, Part to, double seconds) {
  Seconds& times = line_ ? device_ : host_;
  const double moved = std::clamp(seconds, 0.0, times[index_of(from)]);
  times[index_of(from)] -= moved;
  times[index_of(to)] += moved;
}

void PartTimer::end_step() {
  if (line_ && !paused_) add_late_step();
}

void PartTimer::add_late_step() {
  const std::vector<double>& late = line_->end_step();
  for (const Part part : kDeviceParts) device_[index_of(part)] += late[index_of(part)];
}

PartTimer::Seconds PartTimer::with_device_times(double wall) const {
  const double training = wall - host_[index_of(Part::eval)] - host_[index_of(Part::checkpoint)];
  const double busy = std::accumulate(device_.begin(), device_.end(), 0.0);
  const double scale = busy > training && busy > 0 ? training / busy : 1.0;
  Seconds all = host_;
  for (const Part part : kDeviceParts) all[index_of(part)] = device_[index_of(part)] * scale;
  const double idle = std::max(training - busy * scale, 0.0);
  all[index_of(Part::data_wait)] = std::min(host_[index_of(Part::data_wait)], idle);
  all[index_of(Part::other)] = idle - all[index_of(Part::data_wait)];
  return all;
}

events::Timing PartTimer::end_epoch(std::int64_t samples) {
  enter(Part::other);
  if (line_) {  // the last two steps of the epoch
    add_late_step();
    add_late_step();
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
  timing.data_wait_s = parts[index_of(Part::data_wait)];
  timing.h2d_s = parts[index_of(Part::h2d)];
  timing.forward_s = parts[index_of(Part::forward)];
  timing.backward_s = parts[index_of(Part::backward)];
  timing.allreduce_exposed_s = parts[index_of(Part::allreduce)];
  timing.optimizer_s = parts[index_of(Part::optimizer)];
  timing.eval_s = parts[index_of(Part::eval)];
  timing.checkpoint_s = parts[index_of(Part::checkpoint)];
  timing.other_s = parts[index_of(Part::other)];
  timing.first_batch_s = std::max(first_batch_, 0.0);
  return timing;
}

double training_rate(const events::Timing& timing) {
  const double training = timing.wall_s - timing.eval_s - timing.checkpoint_s;
  return training > 0 ? static_cast<double>(timing.samples) / training : 0;
}

void add_times(events::Timing& sum, const events::Timing& more) {
  for (const auto& [name, seconds] : kTimes) sum.*seconds += more.*seconds;
}

void serialize_times(events::Timing& timing, StateArchive& archive) {
  for (const auto& [name, seconds] : kTimes) archive.value(name, &(timing.*seconds));
}

namespace {

using torch::profiler::impl::cudaStubs;

/// By Part; what is no part of its own has no name.
constexpr std::array<const char*, kParts> kNames{"data_wait",  "h2d",        "forward",
                                                 "backward",   "allreduce",  "optimizer",
                                                 "evaluation", "checkpoint", nullptr};

bool is_of_no_step(Part part) { return part == Part::eval || part == Part::checkpoint; }

}  // namespace

bool PartRanges::available() { return cudaStubs()->enabled(); }

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
  if (is_of_no_step(part)) end_step();
  const char* name = kNames.at(static_cast<std::size_t>(part));
  if (name == nullptr) return;
  cudaStubs()->rangePush(name);
  in_part_ = true;
}

void PartRanges::end_part() {
  if (std::exchange(in_part_, false)) cudaStubs()->rangePop();
}

void PartRanges::end_step() {
  if (std::exchange(in_step_, false)) cudaStubs()->rangePop();
}

}  // namespace trainctl::train
