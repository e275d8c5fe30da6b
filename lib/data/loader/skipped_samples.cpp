#include "data/loader/skipped_samples.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace trainctl::data {

namespace {

[[noreturn]] void exceed(const SkippedSample& sample, std::int64_t most) {
  throw Error(
      ErrorKind::data,
      fmt::format(
          "{}: {} (more than the {} damaged sample(s) that dataset.max_skipped allows)\nhint: "
          "repair or remove the damaged samples, or raise dataset.max_skipped",
          sample.name, sample.reason, most));
}

}  // namespace

void SkippedSamples::note(const SkipPlace& place, SkippedSample sample) {
  const std::lock_guard lock(mutex_);
  std::vector<Met>& met = met_[{place.epoch, place.batch}];
  std::int64_t of_tile = 0;
  for (const Met& one : met) {
    if (one.place.tile != place.tile) continue;
    if (one.place.index == place.index) return;
    ++of_tile;
  }
  if (of_tile >= most_) exceed(sample, most_);
  met.push_back({place, std::move(sample)});
}

void SkippedSamples::charge(std::int64_t epoch, std::int64_t batch) {
  const std::lock_guard lock(mutex_);
  const auto found = met_.find({epoch, batch});
  if (found == met_.end()) return;
  std::vector<Met> met = std::move(found->second);
  met_.erase(found);
  std::stable_sort(met.begin(), met.end(),
                   [](const Met& a, const Met& b) { return a.place.row < b.place.row; });
  for (Met& one : met) count(one.place.index, std::move(one.sample));
}

void SkippedSamples::add(std::int64_t index, SkippedSample sample) {
  const std::lock_guard lock(mutex_);
  count(index, std::move(sample));
}

void SkippedSamples::count(std::int64_t index, SkippedSample sample) {
  if (samples_.contains(index) || before_.contains(index)) return;
  if (std::ssize(samples_) + std::ssize(before_) >= most_) exceed(sample, most_);
  samples_.emplace(index, std::move(sample));
}

void SkippedSamples::forget() {
  const std::lock_guard lock(mutex_);
  met_.clear();
}

std::vector<SkippedSample> SkippedSamples::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<SkippedSample> all;
  for (const auto& [index, sample] : samples_) all.push_back(sample);
  return all;
}

std::vector<std::uint64_t> SkippedSamples::counted() const {
  const std::lock_guard lock(mutex_);
  std::set<std::int64_t> all = before_;
  for (const auto& [index, sample] : samples_) all.insert(index);
  return {all.begin(), all.end()};
}

void SkippedSamples::count_before(const std::vector<std::uint64_t>& indices) {
  const std::lock_guard lock(mutex_);
  before_.clear();
  for (const std::uint64_t index : indices) {
    const auto number = static_cast<std::int64_t>(index);
    if (!samples_.contains(number)) before_.insert(number);
  }
}

std::int64_t default_max_skipped(std::int64_t samples) {
  return std::clamp<std::int64_t>(samples / 1000, 1, 100);
}

SoundSamples::SoundSamples(std::int64_t samples)
    : words_(std::make_unique<std::atomic<std::uint64_t>[]>(
          static_cast<std::size_t>(samples / 64 + 1))) {}

}  // namespace trainctl::data
