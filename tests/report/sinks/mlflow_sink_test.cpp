#include "report/sinks/mlflow_sink.hpp"

#include "base/clock.hpp"
#include "report/invented.hpp"
#include "report/sinks/fake_mlflow.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

using namespace trainctl;
using namespace trainctl::report;
using mlflow::testing::FakeServer;

namespace {

constexpr double kDeadlineS = 60;

/// The options of a sink that sends to a server in memory, without waits.
struct Tracked {
  Tracked() {
    options.uri = "http://tracker:5000";
    options.transport = [this](const mlflow::Call& call, const std::stop_token& token) {
      if (on_call) on_call(call, token);
      return server.answer(call);
    };
    options.run = {
        .experiment = "digits", .name = "night", .user = "ann", .start_ms = 5, .tags = {}};
    options.run_dir = folder.path();
    options.stop_after_s = kDeadlineS;
    options.send_every_s = options.first_pause_s = options.longest_pause_s = 0.001;
    options.wall_time = [] { return 1000.0; };
    options.now = [] { return steady_clock().now(); };
  }

  /// Runs a sink from its start to its end, and returns its warnings.
  std::vector<std::string> train(std::int64_t steps, const Json& result = {{"exit_code", 0}}) {
    const auto sink = make_mlflow_sink(options);
    for (std::int64_t step = 1; step <= steps; ++step)
      sink->on_event(0, events::StepLogged{.global_step = step, .loss = double(step), .lr = 0.5});
    sink->on_tick(0);
    return end(*sink, result);
  }
  static std::vector<std::string> end(Sink& sink, const Json& result) {
    sink.close();
    sink.on_end(result);
    sink.finish();
    std::vector<std::string> warnings;
    while (auto warning = sink.take_warning()) warnings.push_back(*warning);
    return warnings;
  }

  TempFolder folder;
  FakeServer server;
  std::function<void(const mlflow::Call&, const std::stop_token&)> on_call;
  MlflowOptions options;
};

std::vector<double> counted(int from, int to) {
  std::vector<double> numbers;
  for (int i = from; i <= to; ++i) numbers.push_back(i);
  return numbers;
}

const mlflow::Reply kBusy{503, "busy", {}};

}  // namespace

TEST_CASE("MlflowSink: a run has parameters, metrics, files and a status") {
  Tracked run;
  run.options.config = "seed: 7\n";
  for (int i = 0; i < 150; ++i) run.options.params.emplace_back("p" + std::to_string(i), "1");
  std::ofstream(run.folder / "report.html") << "<html>";
  const auto sink = make_mlflow_sink(run.options);
  sink->on_tick(0);
  sink->on_event(0, invented::epoch(0));
  sink->on_event(1, events::StepLogged{.global_step = 1});
  CHECK(Tracked::end(*sink, {{"exit_code", 0}, {"verdict", "ok"}}).empty());

  std::vector<std::size_t> params;
  for (const Json& body : run.server.bodies("log-batch")) {
    if (body.contains("params")) params.push_back(body["params"].size());
  }
  CHECK(params == std::vector<std::size_t>{100, 50});
  CHECK(run.server.values("val/accuracy") == std::vector<double>{0.95});
  CHECK(run.server.values("throughput/epoch_wall_s") == std::vector<double>{2.5});
  CHECK(run.server.values("step/train_loss").empty());
  const auto files = run.server.calls("mlflow-artifacts");
  REQUIRE(files.size() == 3);
  CHECK(files[0].url.ends_with("/3/abc/artifacts/config.resolved.yaml"));
  CHECK(files[0].body == "seed: 7\n");
  CHECK(files[1].url.ends_with("/result.json"));
  CHECK(files[2].body == "<html>");
  CHECK(run.server.bodies("log-batch").back()["tags"][0]["value"] == "ok");
  CHECK(run.server.bodies("runs/update").back() ==
        Json{{"run_id", "abc"}, {"status", "FINISHED"}, {"end_time", 1000000}});
  CHECK(Json::parse(golden::read(run.folder / "mlflow.json"))["run_id"] == "abc");
}

TEST_CASE("MlflowSink: a page that is too large is left out, and the status is sent") {
  Tracked run;
  std::ofstream(run.folder / "report.html") << "<html>";
  std::filesystem::resize_file(run.folder / "report.html", std::uint64_t{65} << 20);
  CHECK(run.train(1).empty());
  CHECK(run.server.calls("report.html").empty());
  CHECK(run.server.bodies("runs/update").back()["status"] == "FINISHED");
}

TEST_CASE("MlflowSink: a run folder that cannot be written costs only a warning") {
  Tracked tracked;
  tracked.options.run_dir = tracked.folder.path() / "gone";
  const auto warnings = tracked.train(3);
  REQUIRE(!warnings.empty());
  CHECK_THAT(warnings.front(),
             Catch::Matchers::StartsWith("a resumed run will be a new run in MLflow: "));
  CHECK(tracked.server.bodies("runs/update").back()["status"] == "FINISHED");
}

TEST_CASE("MlflowSink: a request has at most 1,000 metrics, in order") {
  Tracked run;
  CHECK(run.train(1200).empty());
  for (const Json& body : run.server.bodies("log-batch"))
    CHECK(body.value("metrics", Json::array()).size() <= 1000);
  CHECK(run.server.values("step/train_loss") == counted(1, 1200));
}

TEST_CASE("MlflowSink: the status is that of the end of the run") {
  const auto status = [](const Json& result) {
    Tracked run;
    CHECK(run.train(1, result).empty());
    const auto updates = run.server.bodies("runs/update");
    return updates.empty() ? "RUNNING" : updates.back()["status"].get<std::string>();
  };
  CHECK(status({{"exit_code", 0}}) == "FINISHED");
  CHECK(status({{"exit_code", 6}}) == "FAILED");
  CHECK(status({{"exit_code", nullptr}}) == "FAILED");
  CHECK(status({{"exit_code", 75}}) == "KILLED");
  CHECK(status({{"exit_code", 143}}) == "KILLED");
  CHECK(status({{"exit_code", 7}, {"will_restart", true}}) == "RUNNING");
  CHECK(status({{"exit_code", 6}, {"will_restart", true}}) == "FAILED");  // another attempt follows
}

TEST_CASE("MlflowSink: a resumed run continues the run on the server") {
  Tracked run;
  run.options.params = {{"seed", "2"}, {"trainer.max_epochs", "5"}};
  CHECK(run.train(1).empty());
  CHECK(run.train(2).empty());
  CHECK(run.server.calls("runs/create").size() == 1);
  CHECK(run.server.calls("runs/get").size() == 1);
  CHECK(run.server.values("step/train_loss") == std::vector<double>{1, 1, 2});
  // MLflow does not change parameters, and the run already has the seed.
  std::vector<Json> params;
  for (const Json& body : run.server.bodies("log-batch")) {
    if (body.contains("params")) params.push_back(body["params"]);
  }
  REQUIRE(params.size() == 2);
  CHECK(params[0].size() == 2);
  CHECK(params[1] == Json::array({{{"key", "trainer.max_epochs"}, {"value", "5"}}}));
}

TEST_CASE("MlflowSink: the run of another server or of a deleted run is not continued") {
  Tracked run;
  CHECK(run.train(1).empty());
  SECTION("another server") {
    run.options.uri = "http://other:5000";
    CHECK(run.train(1).empty());
  }
  SECTION("a deleted run") {
    run.server.plan("runs/get", FakeServer::json(Json::object(), 404));
    const auto warnings = run.train(1);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Contains("the MLflow run abc of this folder does not exist"));
  }
  CHECK(run.server.calls("runs/create").size() == 2);
}

TEST_CASE("MlflowSink: a server that fails for a while costs one warning and no values") {
  Tracked run;
  for (int i = 0; i < 5; ++i) run.server.plan("get-by-name", kBusy);
  for (int i = 0; i < 3; ++i) run.server.plan("log-batch", kBusy);
  const auto sink = make_mlflow_sink(run.options);
  sink->on_tick(0);
  sink->on_event(0, events::StepLogged{.global_step = 1, .loss = 1});
  // The sink is only ended once the server has recovered, because it soon gives up after the end.
  const double limit = steady_clock().now() + kDeadlineS;
  while (run.server.calls("log-batch").size() < 4 && steady_clock().now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto warnings = Tracked::end(*sink, {{"exit_code", 0}});
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("http://tracker:5000 does not accept data (HTTP status 503") &&
                              Contains("up to 100,000 values wait") &&
                              Contains("accepts data again"));
  CHECK(run.server.bodies("runs/update").back()["status"] == "FINISHED");
}

TEST_CASE("MlflowSink: a server that never answers costs the oldest values beyond the limit") {
  Tracked run;
  run.options.most_waiting = 10;
  for (int i = 0; i < 1000; ++i) run.server.plan("get-by-name", {0, {}, "connection refused"});
  const auto warnings = run.train(20);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("does not accept data (connection refused)") &&
                              Contains("up to 10 values") &&
                              Contains("could not send 40 values of metrics"));
  CHECK_FALSE(std::filesystem::exists(run.folder / "mlflow.json"));
}

TEST_CASE("MlflowSink: the newest values are kept when too many wait") {
  Tracked run;
  run.options.most_waiting = 10;
  const auto sink = make_mlflow_sink(run.options);
  for (std::int64_t step = 1; step <= 20; ++step)
    sink->on_event(0, events::StepLogged{.global_step = step, .loss = double(step)});
  sink->on_tick(0);
  const auto warnings = Tracked::end(*sink, {{"exit_code", 0}});
  CHECK(run.server.values("step/train_loss") == counted(16, 20));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("could not send 30 values of metrics to http://tracker:5000"));
}

TEST_CASE("MlflowSink: a request that hangs ends with the time limit") {
  Tracked run;
  run.options.stop_after_s = 0;
  std::mutex mutex;
  std::condition_variable_any wake;
  run.on_call = [&](const mlflow::Call&, const std::stop_token& token) {
    std::unique_lock lock(mutex);
    wake.wait(lock, token, [] { return false; });
  };
  const auto warnings = run.train(1);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0],
             Contains("could not send 2 values of metrics to http://tracker:5000, and the status"));
}

TEST_CASE("MlflowSink: a refusal is reported once and does not end the others") {
  Tracked run;
  const mlflow::Reply refusal = FakeServer::json(
      {{"error_code", "INVALID_PARAMETER_VALUE"}, {"message", "no such key"}}, 400);
  SECTION("of the run: nothing is sent") {
    run.server.plan("get-by-name", {401, {}, {}});
    const auto warnings = run.train(3);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Contains("sends nothing more") && Contains("HTTP status 401"));
    CHECK(run.server.calls().size() == 1);
  }
  SECTION("of metrics: other data is still sent") {
    run.server.plan("log-batch", refusal);
    run.server.plan("log-batch", refusal);
    const auto warnings = run.train(1);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], Contains("refuses data: runs/log-batch: HTTP status 400: no such key"));
    CHECK(run.server.bodies("runs/update").back()["status"] == "FINISHED");
  }
}
