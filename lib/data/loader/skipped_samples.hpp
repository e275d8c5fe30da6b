#pragma once

#include "spec/experiment/enums.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace trainctl::data {

using spec::OnError;

/// A sample that was replaced by another, and why.
struct SkippedSample {
  std::string name;
  std::string reason;
  static auto parts(auto& self) { return std::tie(self.name, self.reason); }  // for encode()
};

/// Who met a sample that cannot be read: a row of a batch, made in a tile.
struct SkipPlace {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  int tile = 0;
  std::int64_t row = 0;
  std::int64_t index = 0;  // of the sample
};

/// The samples that cannot be read, each once, within a budget. Threads note what they meet, in any
/// order and ahead of time; the consumer charges the budget batch by batch, so it is always the
/// same batch that exceeds it. Called from several threads at once.
class SkippedSamples {
 public:
  explicit SkippedSamples(std::int64_t most) : most_(most) {}

  /// Throws Error(data) where its tile alone has met more than the budget allows.
  void note(const SkipPlace& place, SkippedSample sample);
  /// What that batch has met counts. Throws Error(data) where it is more than the budget allows.
  void charge(std::int64_t epoch, std::int64_t batch);
  /// Of one who reads in order: counts at once, and throws as `charge` does.
  void add(std::int64_t index, SkippedSample sample);
  /// What batches have met that nobody will take is forgotten.
  void forget();
  /// Those that count, in the order of their numbers, without those of an earlier process.
  [[nodiscard]] std::vector<SkippedSample> list() const;
  /// The numbers of all that count.
  [[nodiscard]] std::vector<std::uint64_t> counted() const;
  /// Those of an earlier process, which has named them, count from the beginning.
  void count_before(const std::vector<std::uint64_t>& indices);

 private:
  struct Met {
    SkipPlace place;
    SkippedSample sample;
  };

  void count(std::int64_t index, SkippedSample sample);

  std::int64_t most_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Met>> met_;  // by epoch and batch
  std::map<std::int64_t, SkippedSample> samples_;
  std::set<std::int64_t> before_;  // none of samples_
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
