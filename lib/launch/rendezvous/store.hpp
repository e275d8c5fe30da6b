#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Client of the supervisor's key-value store, over the inherited Unix socket: what c10d needs to
/// form a group. One request at a time; thread-safe. Throws Error(rank_failed) when the supervisor
/// is gone, Error(hang) on time-out.
class StoreClient {
 public:
  /// Owns the descriptor from here on.
  explicit StoreClient(int fd);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Key up to 64 KiB, value up to 1 MiB, 64 MiB in all: Error(resource) where the store is full.
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> look(const std::string& key);  // does not wait
  /// The sum, kept as decimal text; a key that is not there counts as 0.
  std::int64_t add(const std::string& key, std::int64_t delta);
  bool erase(const std::string& key);
  std::int64_t size();
  /// Waits until every key is there: at most 1,024 keys of 1 MiB in all. Error(hang) names the
  /// first and the time.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainctl::launch
