#include "data/skipped.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {

void SkippedSamples::add(std::int64_t index, SkippedSample sample) {
  const std::lock_guard lock(mutex_);
  const auto [place, added] = samples_.emplace(index, std::move(sample));
  if (!added || std::ssize(samples_) <= most_) return;
  const SkippedSample last = place->second;
  samples_.erase(place);
  throw Error(ErrorKind::data, fmt::format("{}: {}; it is one more than the {} damaged sample(s) "
                                           "that dataset.max_skipped allows: mend or "
                                           "remove them, or raise it",
                                           last.name, last.reason, most_));
}

std::vector<SkippedSample> SkippedSamples::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<SkippedSample> all;
  for (const auto& [index, sample] : samples_) all.push_back(sample);
  return all;
}

std::int64_t default_max_skipped(std::int64_t samples) {
  return std::clamp<std::int64_t>(samples / 1000, 1, 100);
}

SoundSamples::SoundSamples(std::int64_t samples)
    : words_(std::make_unique<std::atomic<std::uint64_t>[]>(
          static_cast<std::size_t>(samples / 64 + 1))) {}

}  // namespace trainctl::data
