#pragma once

#include "base/json.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::report::mlflow {

/// An HTTP request to a tracking server.
struct Call {
  std::string method;  // "GET", "POST", "PUT"
  std::string url;
  std::string body;
};

/// The response of a server, or why it did not respond.
struct Reply {
  int status = 0;  // 0: no response
  std::string body;
  std::string failure;  // transport error, or empty
};

/// Sends a request and waits for the response. Does not throw for errors of the network or server.
using Transport = std::function<Reply(const Call&)>;

struct Metric {
  std::string key;
  double value = 0;
  std::int64_t timestamp_ms = 0;  // since 1970
  std::int64_t step = 0;
};

/// Keys and values, of parameters or tags.
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Limits of MLflow's REST API.
inline constexpr std::size_t kMostMetrics = 1000;  // in a request
inline constexpr std::size_t kMostPairs = 100;     // parameters or tags in a request
inline constexpr std::size_t kMostValueBytes = 6000;
inline constexpr std::size_t kMostKeyBytes = 250;

/// Returns the name as a key that MLflow accepts: other characters than ASCII letters, digits and
/// "_-./: " become '_', and long names are cut.
std::string key_of(std::string_view name);

/// Returns the values of a configuration by their path, such as "optimizer.lr". A list is one value
/// in JSON. Values are cut to 6,000 bytes, between two characters.
Pairs flattened(const Json& config);

/// The run to create, unless it exists.
struct NewRun {
  std::string experiment;  // created if missing
  std::string name;
  std::string user;
  std::int64_t start_ms = 0;
  Pairs tags;
};

/// A run of a tracking server.
struct Run {
  std::string experiment_id;
  std::string id;
  std::string artifact_uri;      // "mlflow-artifacts:/0/7f3a.../artifacts"
  std::set<std::string> params;  // keys that the run already has
  bool is_new = true;
};

/// Calls the REST API of an MLflow tracking server. Every function throws Error(resource) if the
/// server cannot be reached, asks to retry or fails (status 408, 429 or 5xx), and Error(config) if
/// the server refuses the request, so that a retry would fail again.
class Client {
 public:
  /// `uri` is that of the server, "http://mlflow.example:5000".
  Client(std::string uri, Transport transport);

  /// Returns the run with this id, and marks it as running. Returns nullopt if it does not exist or
  /// was deleted.
  std::optional<Run> reopen(const std::string& id);
  /// Creates a run. A retry returns the run that an earlier call has created, even if the response
  /// to that call was lost.
  Run create(const NewRun& run);
  /// Adds at most 1,000 metrics, 100 parameters and 100 tags to a run. Adding the same again has no
  /// effect.
  void log(const Run& run, std::span<const Metric> metrics, const Pairs& params, const Pairs& tags);
  /// Uploads a file. Throws Error(config) also if clients must access the artifact storage
  /// themselves, because the server does not serve artifacts.
  void upload(const Run& run, const std::string& name, std::string bytes);
  /// Sets the status of a run, "FINISHED", "FAILED" or "KILLED".
  void finish(const Run& run, const std::string& status, std::int64_t end_ms);

 private:
  Json call(const std::string& method, const std::string& endpoint, const Json& body);
  Reply send(const Call& request);
  std::string experiment_id(const std::string& name);
  std::optional<Json> find(const NewRun& run, const std::string& experiment_id);

  std::string uri_;
  Transport transport_;
  bool may_exist_ = false;  // a request to create the run was sent
};

}  // namespace trainctl::report::mlflow
