#pragma once

#include "spec/experiment/enums.hpp"

#include <atomic>
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

/// The row of a batch for which an unreadable sample was found.
struct SkipPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  int tile = 0;
  std::int64_t row = 0;
  std::int64_t index = 0;  // of the sample
};

/// Counts unreadable samples, each once, against a limit. Threads record them ahead of time and in
/// any order. The consumer counts them batch by batch, so that the same batch always exceeds the
/// limit. Called from several threads at once.
class SkippedSamples {
 public:
  explicit SkippedSamples(std::int64_t most) : most_(most) {}

  /// Records a sample. Throws Error(data) when the samples of its tile alone exceed the limit.
  void record(const SkipPosition& position, SkippedSample sample);
  /// Counts the samples recorded for that batch. Throws Error(data) when they exceed the limit.
  void count_batch(std::int64_t epoch, std::int64_t batch);
  /// Counts a sample immediately and throws like count_batch(), for callers that read in order.
  void add(std::int64_t index, SkippedSample sample);
  /// Discards samples recorded for batches that will not be consumed.
  void discard_pending();
  /// Returns the counted samples by index, without those of an earlier process.
  [[nodiscard]] std::vector<SkippedSample> list() const;
  /// Returns the indices of all counted samples.
  [[nodiscard]] std::vector<std::uint64_t> indices() const;
  /// Counts samples of an earlier process, which has already reported them.
  void count_before(const std::vector<std::uint64_t>& indices);

 private:
  struct Entry {
    SkipPosition position;
    SkippedSample sample;
  };

  void count(std::int64_t index, SkippedSample sample);

  std::int64_t most_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Entry>>
      pending_;  // by epoch and batch
  std::map<std::int64_t, SkippedSample> samples_;
  std::set<std::int64_t> before_;  // disjoint from samples_
};

/// Returns a thousandth of the samples, at least 1 and at most 100.
std::int64_t default_max_skipped(std::int64_t samples);

/// Remembers which samples have been fully read without damage, so that later reads may stop early.
/// Called from several threads at once.
class VerifiedSamples {
 public:
  explicit VerifiedSamples(std::int64_t samples);

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
