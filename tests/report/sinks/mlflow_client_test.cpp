#include "base/error.hpp"
#include "report/sinks/fake_mlflow.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report::mlflow;
using trainctl::report::mlflow::testing::FakeServer;

namespace {

Client client_of(FakeServer& server) {
  return Client("http://tracker:5000/",
                [&server](const Call& call) { return server.answer(call); });
}

const NewRun kRun{.experiment = "digits & more",
                  .name = "night",
                  .user = "ann",
                  .start_ms = 1700000000000,
                  .tags = {{"mlflow.user", "ann"}}};

ErrorKind failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("no error was thrown");
  return ErrorKind::unexpected;
}

}  // namespace

TEST_CASE("MLflow: a name becomes a key that MLflow accepts") {
  CHECK(key_of("val/accuracy") == "val/accuracy");
  CHECK(key_of("val/top@5=\xc3\xa4") == "val/top_5___");
  CHECK(key_of(std::string(300, 'x')).size() == 250);
}

TEST_CASE("MLflow: a configuration becomes parameters by path") {
  const Pairs pairs = flattened({{"seed", 7},
                                 {"optimizer", {{"type", "adam"}, {"betas", {0.9, 0.999}}}},
                                 {"scheduler", nullptr},
                                 {"loggers", {{{"type", "csv"}}}},
                                 {"note", std::string(5999, 'x') + "\xc3\xa4"}});
  REQUIRE(pairs.size() == 6);
  CHECK(pairs[0] == std::pair<std::string, std::string>("seed", "7"));
  CHECK(pairs[1] == std::pair<std::string, std::string>("optimizer.type", "adam"));
  CHECK(pairs[2] == std::pair<std::string, std::string>("optimizer.betas", "[0.9,0.999]"));
  CHECK(pairs[3] == std::pair<std::string, std::string>("scheduler", "null"));
  CHECK(pairs[4] == std::pair<std::string, std::string>("loggers", R"([{"type":"csv"}])"));
  CHECK(pairs[5].second == std::string(5999, 'x'));
}

TEST_CASE("MLflow: a key that occurs twice is sent once") {
  const Pairs pairs = flattened({{"a?", 1}, {"a!", 2}});
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0] == std::pair<std::string, std::string>("a_", "2"));
  FakeServer server;
  NewRun run = kRun;
  run.tags = {{"mlflow.user", "ann"}, {"team", "b"}, {"mlflow.user", "bob"}};
  (void)client_of(server).create(run);
  CHECK(Json::parse(server.calls().back().body)["tags"] ==
        Json::parse(R"([{"key":"mlflow.user","value":"bob"},{"key":"team","value":"b"}])"));
}

TEST_CASE("MLflow: a run is created in the experiment of this name") {
  FakeServer server;
  const Run run = client_of(server).create(kRun);
  CHECK(run.id == "abc");
  CHECK(run.experiment_id == "3");
  CHECK(run.is_new);
  const auto calls = server.calls();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].url ==
        "http://tracker:5000/api/2.0/mlflow/experiments/get-by-name?experiment_name="
        "digits%20%26%20more");
  const Json body = Json::parse(calls[1].body);
  CHECK(body["run_name"] == "night");
  CHECK(body["start_time"] == 1700000000000);
  CHECK(body["tags"][0]["key"] == "mlflow.user");
}

TEST_CASE("MLflow: a missing experiment is created, also if two runs do so at the same time") {
  FakeServer server;
  server.plan("get-by-name", FakeServer::json({{"error_code", "RESOURCE_DOES_NOT_EXIST"}}, 404));
  SECTION("by this run") {
    server.plan("experiments/create", FakeServer::json({{"experiment_id", "9"}}));
    client_of(server).create(kRun);
    CHECK(server.bodies("runs/create").at(0)["experiment_id"] == "9");
  }
  SECTION("by another run") {
    server.plan("experiments/create",
                FakeServer::json({{"error_code", "RESOURCE_ALREADY_EXISTS"}}, 400));
    client_of(server).create(kRun);
    CHECK(server.bodies("runs/create").at(0)["experiment_id"] == "3");
  }
}

TEST_CASE("MLflow: a run whose creation got no response is not created twice") {
  FakeServer server;
  server.plan("runs/create", {0, {}, "timeout"});
  Json found = FakeServer::run_document("first")["run"];
  server.plan("runs/search", FakeServer::json({{"runs", {found}}}));
  Client client = client_of(server);
  CHECK(failure_of([&] { client.create(kRun); }) == ErrorKind::resource);
  CHECK(client.create(kRun).id == "first");
  CHECK(server.bodies("runs/search").at(0)["filter"] == "attributes.start_time = 1700000000000");
  CHECK(server.calls("runs/create").size() == 1);
}

TEST_CASE("MLflow: an existing run continues unless it was deleted") {
  FakeServer server;
  Client client = client_of(server);
  const auto run = client.reopen("old");
  REQUIRE(run);
  CHECK_FALSE(run->is_new);
  CHECK(run->params == std::set<std::string>{"seed"});
  CHECK(server.bodies("runs/update").at(0)["status"] == "RUNNING");
  server.plan("runs/get", FakeServer::json(FakeServer::run_document("old", "deleted")));
  CHECK_FALSE(client.reopen("old"));
  server.plan("runs/get", FakeServer::json(Json::object(), 404));
  CHECK_FALSE(client.reopen("old"));
}

TEST_CASE("MLflow: values that are not finite have the names of protobuf") {
  FakeServer server;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Metric> metrics{
      {"a", 0.1, 5, 1}, {"a", 0.0 / 0.0, 6, 2}, {"a", inf, 7, 3}, {"a", -inf, 8, 4}};
  client_of(server).log({.id = "abc"}, metrics, {}, {});
  const Json sent = server.bodies("log-batch").at(0)["metrics"];
  CHECK(sent[0] == Json{{"key", "a"}, {"value", 0.1}, {"timestamp", 5}, {"step", 1}});
  CHECK(sent[1]["value"] == "NaN");
  CHECK(sent[2]["value"] == "Infinity");
  CHECK(sent[3]["value"] == "-Infinity");
}

TEST_CASE("MLflow: files go through the server, or are refused if it does not serve them") {
  FakeServer server;
  Client client = client_of(server);
  client.upload({.artifact_uri = "mlflow-artifacts:/3/abc/artifacts"}, "a b.txt", "text");
  client.upload({.artifact_uri = "mlflow-artifacts://host:1/3/abc"}, "c", "text");
  const auto calls = server.calls("mlflow-artifacts");
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].method == "PUT");
  CHECK(calls[0].body == "text");
  CHECK(calls[0].url ==
        "http://tracker:5000/api/2.0/mlflow-artifacts/artifacts/3/abc/artifacts/a%20b.txt");
  CHECK(calls[1].url == "http://tracker:5000/api/2.0/mlflow-artifacts/artifacts/3/abc/c");
  const auto upload = [&] { client.upload({.artifact_uri = "s3://bucket/3"}, "c", "text"); };
  CHECK(failure_of(upload) == ErrorKind::config);
  CHECK(server.calls().size() == 2);
}

TEST_CASE("MLflow: only failures that may pass are worth a retry") {
  FakeServer server;
  const auto kind_of = [&](Reply reply) {
    server.plan("log-batch", std::move(reply));
    return failure_of([&] { client_of(server).log({.id = "abc"}, {}, {}, {{"a", "b"}}); });
  };
  for (const int status : {0, 408, 429, 500, 503})
    CHECK(kind_of({status, {}, {}}) == ErrorKind::resource);
  for (const int status : {302, 400, 401, 403, 404})
    CHECK(kind_of({status, {}, {}}) == ErrorKind::config);
  CHECK(kind_of({200, "<html>", {}}) == ErrorKind::config);
}
