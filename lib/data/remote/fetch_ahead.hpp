#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/sampling.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

namespace trainctl::data {

/// Samples in the order of their use: sample number i is the one at position `first + i * step`.
struct Sequence {
  std::shared_ptr<const Permutation> order;  // null: positions are samples
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  [[nodiscard]] std::int64_t sample(std::int64_t i) const {
    const std::int64_t position = first + i * step;
    return order ? (*order)[static_cast<std::size_t>(position)] : position;
  }
};

/// Brings the samples of a remote data set to this machine ahead of their use, in threads of its
/// own; without a remote data set it does nothing. What fails is left to whoever needs the sample.
class FetchAhead {
 public:
  /// `readers`: processes that share the budget of the local copies.
  FetchAhead(std::shared_ptr<const Dataset> dataset, int readers);
  ~FetchAhead();
  FetchAhead(const FetchAhead&) = delete;
  FetchAhead& operator=(const FetchAhead&) = delete;

  /// False where nothing is remote.
  [[nodiscard]] bool is_active() const { return source_ != nullptr; }
  /// From now on these. Nothing is done where the sequence before needed nothing fetched.
  void begin(Sequence sequence);
  /// So many more of them have been used: as many others may come.
  void used(std::int64_t count);
  /// Ends what is under way, for good, and does not wait for that.
  void stop();

  /// Bytes that transfers of the data set may hold, where so many threads read beside this one's.
  static std::uint64_t memory(const Dataset& dataset, int readers);

 private:
  void run();
  [[nodiscard]] std::uint64_t fetch(std::int64_t sample) const;
  [[nodiscard]] bool has_work() const;

  std::shared_ptr<const Dataset> dataset_;
  const Fetchable* source_;  // null: nothing is remote
  std::uint64_t most_bytes_ = 0;

  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;
  std::uint64_t round_ = 0;
  Sequence sequence_;
  std::int64_t next_ = 0;
  std::int64_t used_ = 0;
  std::uint64_t bytes_ = 0;                                // fetched or under way, and not used
  std::unordered_map<std::int64_t, std::uint64_t> sizes_;  // of those
  std::uint64_t latest_ = 0;                               // size, for those that are under way
  int under_way_ = 0;                                      // of any round
  std::uint64_t fetches_ = 0;                              // when the sequence began
  std::vector<std::thread> threads_;
};

}  // namespace trainctl::data
