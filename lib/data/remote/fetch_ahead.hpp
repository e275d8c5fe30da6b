#pragma once

#include "data/loader/sampling.hpp"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_map>

namespace trainctl::data {

/// Samples in the order of use: sample i is at position `first + i * step`.
struct Sequence {
  std::shared_ptr<const Permutation> order;  // null: the position is the sample
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  [[nodiscard]] std::int64_t sample(std::int64_t i) const {
    const std::int64_t position = first + i * step;
    return order ? (*order)[static_cast<std::size_t>(position)] : position;
  }
};

/// Downloads samples of a remote data set ahead of their use, in separate threads. Does nothing for
/// a local data set. Errors are ignored: the reader of the sample gets them again.
class FetchAhead {
 public:
  /// `readers`: processes that share the budget of local copies.
  FetchAhead(std::shared_ptr<const Dataset> dataset, int readers);
  ~FetchAhead();
  FetchAhead(const FetchAhead&) = delete;
  FetchAhead& operator=(const FetchAhead&) = delete;

  /// Returns false when nothing is remote.
  [[nodiscard]] bool is_active() const { return source_ != nullptr; }
  /// Replaces the sequence. Does nothing when no sample of the previous sequence needed a download.
  void begin(Sequence sequence);
  /// Reports that `count` more samples were used, so that as many others may be downloaded.
  void used(std::int64_t count);
  /// Cancels all downloads permanently, without waiting for them.
  void stop();

  /// Returns the bytes that transfers may hold when `readers` other threads read the data set.
  static std::uint64_t memory(const Dataset& dataset, int readers);

 private:
  void run();
  [[nodiscard]] std::uint64_t fetch(std::int64_t sample) const;
  [[nodiscard]] bool has_work() const;

  std::shared_ptr<const Dataset> dataset_;
  const Fetchable* source_;  // null: nothing is remote
  std::uint64_t max_bytes_ = 0;

  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;
  std::uint64_t sequence_number_ = 0;
  Sequence sequence_;
  std::int64_t next_ = 0;
  std::int64_t used_ = 0;
  std::uint64_t bytes_ = 0;  // of samples downloaded or in flight, and not used yet
  std::unordered_map<std::int64_t, std::uint64_t> sizes_;  // of those samples
  std::uint64_t estimated_bytes_ = 0;                      // per sample in flight
  int in_flight_ = 0;                                      // samples in flight, of any sequence
  std::uint64_t fetches_ = 0;                              // fetch count when the sequence began
  std::vector<std::thread> threads_;
};

}  // namespace trainctl::data
