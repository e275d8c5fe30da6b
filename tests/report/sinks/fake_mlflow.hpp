#pragma once

#include "report/sinks/mlflow_client.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trainctl::report::mlflow::testing {

/// A tracking server in memory with one experiment, which answers requests as MLflow 3 does. All
/// members are thread-safe.
class FakeServer {
 public:
  Reply answer(const Call& call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    const std::string path = call.url.substr(call.url.find("/api/"));
    for (auto& [part, replies] : planned_) {
      if (replies.empty() || path.find(part) == std::string::npos) continue;
      const Reply reply = replies.front();
      replies.erase(replies.begin());
      return reply;
    }
    return ordinary(path);
  }

  /// Makes the next request whose path contains `part` get this reply. Further calls add replies.
  void plan(const std::string& part, Reply reply) {
    const std::lock_guard lock(mutex_);
    planned_[part].push_back(std::move(reply));
  }

  /// Returns the bodies of the requests whose URL contains `part`, as JSON.
  std::vector<Json> bodies(const std::string& part) {
    std::vector<Json> found;
    for (const Call& call : calls(part)) found.push_back(Json::parse(call.body));
    return found;
  }
  std::vector<Call> calls(const std::string& part = "") {
    const std::lock_guard lock(mutex_);
    std::vector<Call> found;
    std::ranges::copy_if(calls_, std::back_inserter(found), [&](const Call& call) {
      return call.url.find(part) != std::string::npos;
    });
    return found;
  }
  /// Returns the values of a metric in all requests, in order.
  std::vector<double> values(const std::string& key) {
    std::vector<double> found;
    for (const Json& body : bodies("log-batch")) {
      for (const Json& metric : body.value("metrics", Json::array())) {
        if (metric.at("key") == key) found.push_back(metric.at("value").get<double>());
      }
    }
    return found;
  }

  static Reply json(const Json& body, int status = 200) { return {status, to_line(body), {}}; }
  static Json run_document(const std::string& id, const std::string& stage = "active") {
    return {{"run",
             {{"info",
               {{"run_id", id},
                {"run_name", "night"},
                {"experiment_id", "3"},
                {"artifact_uri", "mlflow-artifacts:/3/" + id + "/artifacts"},
                {"lifecycle_stage", stage}}},
              {"data", {{"params", {{{"key", "seed"}, {"value", "1"}}}}}}}}};
  }

 private:
  static Reply ordinary(const std::string& path) {
    if (path.find("get-by-name") != std::string::npos)
      return json({{"experiment", {{"experiment_id", "3"}, {"lifecycle_stage", "active"}}}});
    if (path.find("runs/create") != std::string::npos) {
      Json created = run_document("abc");
      created["run"].erase("data");
      return json(created);
    }
    if (path.find("runs/get") != std::string::npos)
      return json(run_document(path.substr(path.find('=') + 1)));
    return json(Json::object());
  }

  std::mutex mutex_;
  std::vector<Call> calls_;
  std::map<std::string, std::vector<Reply>> planned_;
};

}  // namespace trainctl::report::mlflow::testing
