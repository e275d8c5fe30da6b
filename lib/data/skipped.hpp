#pragma once

#include "spec/on_error.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trainctl::data {

using spec::OnError;

/// A sample that was replaced by another, and why.
struct SkippedSample {
  std::string name;
  std::string reason;
};

/// The samples that cannot be read, each once, within a budget. Called from several threads at
/// once.
class SkippedSamples {
 public:
  explicit SkippedSamples(std::int64_t most) : most_(most) {}

  /// Throws Error(data) where it is one more than the budget allows.
  void add(std::int64_t index, SkippedSample sample);
  /// In the order of their numbers.
  [[nodiscard]] std::vector<SkippedSample> list() const;

 private:
  std::int64_t most_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, SkippedSample> samples_;
};

/// A thousandth of the samples, at least 1 and at most 100.
std::int64_t default_max_skipped(std::int64_t samples);

/// Which samples have been read to their end and found sound, so that a later read may stop early.
/// Called from several threads at once.
class SoundSamples {
 public:
  explicit SoundSamples(std::int64_t samples);

  [[nodiscard]] bool has(std::int64_t index) const {
    return (word(index).load(std::memory_order_relaxed) & bit(index)) != 0;
  }
  void add(std::int64_t index) { word(index).fetch_or(bit(index), std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::atomic<std::uint64_t>& word(std::int64_t index) const {
    return words_[static_cast<std::size_t>(index / 64)];
  }
  static std::uint64_t bit(std::int64_t index) { return std::uint64_t{1} << (index % 64); }

  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

}  // namespace trainctl::data
