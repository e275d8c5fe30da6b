#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// Client of the supervisor's key-value store, over the inherited Unix socket: what c10d needs to form a group. One
/// request at a time; thread-safe. Throws Error(rank_failed) when the supervisor is gone, Error(hang) on time-out.
class StoreClient {
 public:
  explicit StoreClient(int fd);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> look(const std::string& key);  // does not wait
  std::int64_t add(const std::string& key, std::int64_t delta);
  bool erase(const std::string& key);
  std::int64_t size();
  /// Waits until every key is there.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);

 private:
  struct State;
  State* state_;
};

}  // namespace trainctl::launch
