#pragma once

#include "data/core/run_control.hpp"
#include "data/remote/http_client.hpp"
#include "data/remote/object_store.hpp"

#include <functional>
#include <memory>
#include <string>

namespace trainctl::data {

struct TransferOptions {
  int retries = 6;
  double timeout_s = 60;                                     // of one try
  std::function<void(double)> sleep = sleep_unless_stopped;  // takes seconds
};

/// Requests that are sent again, after pauses that double and vary, where the network or the server
/// fails: no answer, a broken connection, 5xx, 429, 408, an answer cut off, or perhaps, or of other
/// bytes than asked. They end early, with what throw_if_stopped() throws.
class Transfers {
 public:
  Transfers(std::unique_ptr<HttpClient> client, TransferOptions options);

  /// The bytes of `range`, fewer only where the object `name` ends; nothing where there is none
  /// (404). Throws Error(data) where the server refuses, Error(resource) where every try failed.
  std::optional<Piece> read(HttpRequest request, const ByteRange& range, const std::string& name);
  /// A whole answer of at most 64 MiB.
  std::optional<std::string> get(HttpRequest request, const std::string& name);

 private:
  using Fault = std::function<std::string(const HttpResponse&)>;
  HttpResponse send(const HttpRequest& request, const std::string& name, const Fault& fault);
  void pause(int attempt, const HttpResponse& response) const;

  std::unique_ptr<HttpClient> client_;
  TransferOptions options_;
};

}  // namespace trainctl::data
