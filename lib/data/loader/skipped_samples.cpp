#include "data/loader/skipped_samples.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace trainctl::data {

namespace {

[[noreturn]] void throw_limit_exceeded(const SkippedSample& sample, std::int64_t most) {
  throw Error(ErrorKind::data, fmt::format("{}: {} (dataset.max_skipped allows only {} damaged "
                                           "sample{})\nhint: repair or remove the damaged samples, "
                                           "or raise dataset.max_skipped",
                                           sample.name, sample.reason, most, plural(most)));
}

}  // namespace

void SkippedSamples::record(const SkipPosition& position, SkippedSample sample) {
  const std::lock_guard lock(mutex_);
  std::vector<Entry>& entries = pending_[{position.epoch, position.batch}];
  std::int64_t in_tile = 0;
  for (const Entry& one : entries) {
    if (one.position.tile != position.tile) continue;
    if (one.position.index == position.index) return;
    ++in_tile;
  }
  if (in_tile >= most_) throw_limit_exceeded(sample, most_);
  entries.push_back({position, std::move(sample)});
}

void SkippedSamples::count_batch(std::int64_t epoch, std::int64_t batch) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find({epoch, batch});
  if (found == pending_.end()) return;
  std::vector<Entry> entries = std::move(found->second);
  pending_.erase(found);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.position.row < b.position.row; });
  for (Entry& one : entries) count(one.position.index, std::move(one.sample));
}

void SkippedSamples::add(std::int64_t index, SkippedSample sample) {
  const std::lock_guard lock(mutex_);
  count(index, std::move(sample));
}

void SkippedSamples::count(std::int64_t index, SkippedSample sample) {
  if (samples_.contains(index) || before_.contains(index)) return;
  if (std::ssize(samples_) + std::ssize(before_) >= most_) throw_limit_exceeded(sample, most_);
  samples_.emplace(index, std::move(sample));
}

void SkippedSamples::discard_pending() {
  const std::lock_guard lock(mutex_);
  pending_.clear();
}

std::vector<SkippedSample> SkippedSamples::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<SkippedSample> all;
  for (const auto& [index, sample] : samples_) all.push_back(sample);
  return all;
}

std::vector<std::uint64_t> SkippedSamples::indices() const {
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

VerifiedSamples::VerifiedSamples(std::int64_t samples)
    : words_(std::make_unique<std::atomic<std::uint64_t>[]>(
          static_cast<std::size_t>(samples / 64 + 1))) {}

}  // namespace trainctl::data
