#include "report/sinks/mlflow_client.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/record/run_files.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace trainctl::report::mlflow {
namespace {

constexpr std::string_view kProxied = "mlflow-artifacts:";

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    if ((c & 0x80) == 0 && (is_plain(c) || kept.find(c) != std::string_view::npos)) {
      encoded.push_back(c);
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

void add_values(const Json& value, const std::string& path, Pairs& pairs) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, below] : value.items())
      add_values(below, path.empty() ? key : path + "." + key, pairs);
  } else {
    const std::string text = value.is_string() ? value.get<std::string>() : to_line(value);
    pairs.emplace_back(key_of(path), utf8_start(text, kMostValueBytes));
  }
}

/// Returns a number as MLflow's JSON has it: the names of protobuf for values that are not finite.
Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

/// Returns each key once, with its last value: MLflow refuses a request that repeats one.
Pairs without_repeats(const Pairs& pairs) {
  Pairs kept;
  for (const auto& [key, value] : pairs) {
    const auto same = std::ranges::find(kept, key, [](const auto& pair) { return pair.first; });
    if (same == kept.end()) {
      kept.emplace_back(key, value);
    } else {
      same->second = value;
    }
  }
  return kept;
}

Json list_of(const Pairs& pairs) {
  Json list = Json::array();
  for (const auto& [key, value] : pairs)
    list.push_back({{"key", key}, {"value", utf8_start(value, kMostValueBytes)}});
  return list;
}

bool is_worth_a_retry(int status) {
  return status == 0 || status == 408 || status == 429 || status >= 500;
}

/// Returns what a server replied to a request that failed, in one line.
std::string cause_of(const Reply& reply) {
  if (reply.status == 0) return reply.failure.empty() ? "no response" : reply.failure;
  const Json body = parse_json(reply.body);
  const std::string message = text_at(body, "message");
  return fmt::format("HTTP status {}{}{}", reply.status, message.empty() ? "" : ": ",
                     bounded(one_line(message)));
}

Run run_of(const Json& reply) {
  const Json& run = reply.at("run");
  const Json& info = run.at("info");
  Run found{.experiment_id = text_at(info, "experiment_id"),
            .id = text_at(info, "run_id"),
            .artifact_uri = text_at(info, "artifact_uri"),
            .params = {}};
  if (!run.contains("data") || !run["data"].contains("params")) return found;
  for (const Json& param : run["data"]["params"]) found.params.insert(text_at(param, "key"));
  return found;
}

/// Reads a reply. Throws Error(config) if it does not have the form that MLflow documents.
template <class Read>
auto read(const Read& body) {
  try {
    return body();
  } catch (const Json::exception& error) {
    THROW(config, "the reply is not one of MLflow: {}", error.what());
  }
}

}  // namespace

std::string key_of(std::string_view name) {
  std::string key(name.substr(0, kMostKeyBytes));
  std::ranges::replace_if(
      key,
      [](char c) {
        return (c & 0x80) != 0 ||
               (!is_plain(c) && std::string_view("_-./: ").find(c) == std::string_view::npos);
      },
      '_');
  return key;
}

Pairs flattened(const Json& config) {
  Pairs pairs;
  add_values(config, "", pairs);
  return without_repeats(pairs);
}

Client::Client(std::string uri, Transport transport)
    : uri_(std::move(uri)), transport_(std::move(transport)) {
  while (uri_.ends_with('/')) uri_.pop_back();
}

std::optional<Run> Client::reopen(const std::string& id) {
  const Reply reply = send({"GET", "/api/2.0/mlflow/runs/get?run_id=" + id, {}});
  if (reply.status == 404) return std::nullopt;
  ENSURE(config, reply.status == 200, "{}", cause_of(reply));
  auto run = read([&]() -> std::optional<Run> {
    const Json body = parse_json(reply.body);
    if (text_at(body.at("run").at("info"), "lifecycle_stage") == "deleted") return std::nullopt;
    return run_of(body);
  });
  if (!run) return std::nullopt;
  call("POST", "runs/update", {{"run_id", id}, {"status", "RUNNING"}});
  run->is_new = false;
  return run;
}

std::string Client::experiment_id(const std::string& name) {
  const std::string get =
      "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" + percent_encoded(name, "-._~");
  Reply reply = send({"GET", get, {}});
  if (reply.status == 404) {
    reply = send({"POST", "/api/2.0/mlflow/experiments/create", to_line({{"name", name}})});
    if (reply.status == 200)
      return read([&] { return parse_json(reply.body).at("experiment_id").get<std::string>(); });
    // Another run may have created the experiment at the same time.
    if (text_at(parse_json(reply.body), "error_code") == "RESOURCE_ALREADY_EXISTS")
      reply = send({"GET", get, {}});
  }
  ENSURE(config, reply.status == 200, "cannot open the experiment '{}': {}", printable(name),
         cause_of(reply));
  return read([&] {
    const Json body = parse_json(reply.body);
    const Json& experiment = body.at("experiment");
    ENSURE(config, text_at(experiment, "lifecycle_stage") != "deleted",
           "the experiment '{}' was deleted; restore it, or write another experiment_name",
           printable(name));
    return experiment.at("experiment_id").get<std::string>();
  });
}

std::optional<Json> Client::find(const NewRun& run, const std::string& experiment_id) {
  const Json reply = call("POST", "runs/search",
                          {{"experiment_ids", {experiment_id}},
                           {"filter", fmt::format("attributes.start_time = {}", run.start_ms)},
                           {"max_results", 100}});
  if (!reply.contains("runs")) return std::nullopt;
  for (const Json& found : reply["runs"]) {
    if (text_at(found.at("info"), "run_name") == run.name) return Json{{"run", found}};
  }
  return std::nullopt;
}

Run Client::create(const NewRun& run) {
  const std::string experiment = experiment_id(run.experiment);
  std::optional<Json> reply;
  if (may_exist_) reply = read([&] { return find(run, experiment); });
  may_exist_ = true;
  if (!reply)
    reply = call("POST", "runs/create",
                 {{"experiment_id", experiment},
                  {"run_name", run.name},
                  {"user_id", run.user},
                  {"start_time", run.start_ms},
                  {"tags", list_of(without_repeats(run.tags))}});
  return read([&] { return run_of(*reply); });
}

void Client::log(const Run& run, std::span<const Metric> metrics, const Pairs& params,
                 const Pairs& tags) {
  ASSERT(metrics.size() <= kMostMetrics && params.size() <= kMostPairs &&
         tags.size() <= kMostPairs);
  Json body{{"run_id", run.id}};
  for (const Metric& metric : metrics)
    body["metrics"].push_back({{"key", metric.key},
                               {"value", number(metric.value)},
                               {"timestamp", metric.timestamp_ms},
                               {"step", metric.step}});
  if (!params.empty()) body["params"] = list_of(params);
  if (!tags.empty()) body["tags"] = list_of(tags);
  call("POST", "runs/log-batch", body);
}

void Client::upload(const Run& run, const std::string& name, std::string bytes) {
  ENSURE(config, run.artifact_uri.starts_with(kProxied),
         "the server stores artifacts at '{}' and does not serve them; start it with "
         "--artifacts-destination, and without --no-serve-artifacts",
         printable(run.artifact_uri));
  // The URI is mlflow-artifacts:/PATH or mlflow-artifacts://HOST/PATH.
  std::string_view path = std::string_view(run.artifact_uri).substr(kProxied.size());
  if (path.starts_with("//")) path.remove_prefix(std::min(path.find('/', 2), path.size()));
  while (path.starts_with('/')) path.remove_prefix(1);
  const Reply reply =
      send({"PUT",
            fmt::format("/api/2.0/mlflow-artifacts/artifacts/{}/{}", percent_encoded(path, "-._~/"),
                        percent_encoded(name, "-._~/")),
            std::move(bytes)});
  ENSURE(config, reply.status == 200, "cannot store the artifact {}: {}", name, cause_of(reply));
}

void Client::finish(const Run& run, const std::string& status, std::int64_t end_ms) {
  call("POST", "runs/update", {{"run_id", run.id}, {"status", status}, {"end_time", end_ms}});
}

Json Client::call(const std::string& method, const std::string& endpoint, const Json& body) {
  const Reply reply = send({method, "/api/2.0/mlflow/" + endpoint, to_line(body)});
  ENSURE(config, reply.status == 200, "{}: {}", endpoint, cause_of(reply));
  Json answer = parse_json(reply.body);
  ENSURE(config, !answer.is_discarded(), "the reply is not one of MLflow: it is not JSON");
  return answer;
}

Reply Client::send(const Call& request) {
  Reply reply = transport_({request.method, uri_ + request.url, request.body});
  ENSURE(resource, !is_worth_a_retry(reply.status), "{}", cause_of(reply));
  return reply;
}

}  // namespace trainctl::report::mlflow
