#pragma once

#include "data/core/run_control.hpp"
#include "data/remote/object_store.hpp"

#include <functional>

namespace trainctl::data {

/// The retry policy of transfers.
struct TransferOptions {
  int retries = 6;
  double timeout_s = 60;                                     // per attempt
  std::function<void(double)> sleep = sleep_unless_stopped;  // takes seconds
};

/// Sends requests with retries, after exponential pauses with jitter. Network and server errors are
/// retried: no response, a broken connection, 5xx, 429, 408, and responses that are truncated,
/// possibly truncated or contain other bytes than requested. A stop request ends a transfer early
/// with the error of throw_if_stopped().
class Transfers {
 public:
  Transfers(std::unique_ptr<HttpClient> client, TransferOptions options);

  /// Returns the bytes of `range`, fewer only at the end of the object `name`; nothing when there
  /// is no such object (404). Throws Error(data) when the server rejects the request,
  /// Error(resource) when all attempts failed.
  std::optional<ObjectPart> read(HttpRequest request, const ByteRange& range,
                                 const std::string& name);
  /// Returns a complete response body of at most 64 MiB.
  std::optional<std::string> get(HttpRequest request, const std::string& name);

 private:
  using ResponseCheck = std::function<std::string(const HttpResponse&)>;
  HttpResponse send(const HttpRequest& request, const std::string& name,
                    const ResponseCheck& check);
  void pause(int attempt, const HttpResponse& response) const;

  std::unique_ptr<HttpClient> client_;
  TransferOptions options_;
};

}  // namespace trainctl::data
