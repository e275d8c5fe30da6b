#include "study/run/run.hpp"

#include "base/error.hpp"
#include "study/fake_run.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <functional>

using namespace trainctl;

namespace {

/// Calls a function for each event, and counts the calls of close().
class SpySink final : public report::Sink {
 public:
  using Hook = std::function<void()>;
  SpySink(int& closed, Hook on_event, Hook on_close)
      : closed_(closed), on_event_(std::move(on_event)), on_close_(std::move(on_close)) {}

  void on_event(int /*rank*/, const events::Event& /*event*/) override {
    if (on_event_) on_event_();
  }
  void on_tick(double /*now*/) override {}
  void close() override {
    ++closed_;
    if (on_close_) on_close_();
  }

 private:
  int& closed_;
  Hook on_event_;
  Hook on_close_;
};

study::RunOutcome run(const study::RunRequest& request, int& closed, const SpySink::Hook& on_event,
                      const SpySink::Hook& on_close) {
  const auto make_sinks = [&](const fs::path&) {
    study::Sinks sinks;
    sinks.push_back(std::make_unique<SpySink>(closed, on_event, on_close));
    sinks.push_back(std::make_unique<SpySink>(closed, nullptr, nullptr));
    return sinks;
  };
  return study::run_experiment(request, make_sinks, steady_clock());
}

void disk_is_full() { throw Error(ErrorKind::resource, "no space left"); }

Json read_result(const study::RunOutcome& outcome) {
  return Json::parse(read_file(outcome.folder / "result.json", 1 << 20, ReadFailure::resource));
}

}  // namespace

TEST_CASE("run: leaves result.json, but no lock and no reserve file") {
  TempFolder folder;
  int closed = 0;
  const study::RunOutcome outcome =
      run(fake_run::request(folder, fake_run::two_epochs()), closed, nullptr, nullptr);
  CHECK(outcome.ending.exit_code == 0);
  CHECK(outcome.write_error.empty());
  CHECK(read_result(outcome) == outcome.result);
  for (const auto& entry : fs::directory_iterator(outcome.folder)) {
    CHECK(entry.path().filename().string().front() != '.');
  }
}

TEST_CASE("run: result.json is unfinished while the run is running") {
  TempFolder folder;
  int closed = 0;
  std::vector<Json> seen;
  const study::RunRequest request = fake_run::request(folder, fake_run::two_epochs());
  const auto look = [&] {
    const auto result = fs::directory_iterator(folder / "runs/fake")->path() / "result.json";
    seen.push_back(Json::parse(read_file(result, 1 << 20, ReadFailure::resource)));
  };
  const study::RunOutcome outcome = run(request, closed, look, nullptr);
  CHECK(outcome.ending.exit_code == 0);
  REQUIRE_FALSE(seen.empty());
  for (const Json& result : seen) {
    CHECK(result["verdict"] == "unfinished");
    CHECK(result["exit_code"].is_null());
  }
  CHECK(read_result(outcome)["verdict"] == "ok");
}

TEST_CASE("run: automatic choices are in the log of the rank and in the manifest") {
  TempFolder folder;
  int closed = 0;
  const study::RunOutcome outcome =
      run(fake_run::request(folder, fake_run::two_epochs()), closed, nullptr, nullptr);
  const std::string log =
      read_file(outcome.folder / "logs/rank_0.log", 1 << 20, ReadFailure::resource);
  CHECK_THAT(log,
             Contains("uses cpu, started in 0.25 s") && Contains("3 CPU threads (asked)") &&
                 Contains("4 loader workers with prefetch factor 2 (probe: 4 workers keep up)"));
  const Json manifest =
      Json::parse(read_file(outcome.folder / "manifest.json", 1 << 20, ReadFailure::resource));
  CHECK(manifest["num_threads"]["why"] == "asked");
  CHECK(manifest["num_workers"] == Json{{"value", 4},
                                        {"prefetch_factor", 2},
                                        {"why", "probe: 4 workers keep up"},
                                        {"contended", false}});
}

TEST_CASE("run: training columns come before validation columns") {
  config::Diagnostics diagnostics;
  const auto columns = [&](const std::string& more) {
    const std::string text =
        "dataset: { train: { type: synthetic_digits }" + more +
        " }\nmodel: { type: linear }\noptimizer: { type: sgd, lr: 0.1 }\nmetrics: [accuracy]\n";
    return study::metric_columns(
        spec::load_experiment_text("a.yaml", text, {}, diagnostics).experiment);
  };
  CHECK(columns(", val: { type: synthetic_digits }") ==
        std::vector<std::string>{"train/loss", "train/accuracy", "val/loss", "val/accuracy"});
  CHECK(columns("") == std::vector<std::string>{"train/loss", "train/accuracy"});
}

TEST_CASE(
    "run: a sink that cannot close fails a successful run and does not hide an earlier error") {
  TempFolder folder;
  int closed = 0;
  const auto good =
      run(fake_run::request(folder, fake_run::two_epochs()), closed, nullptr, disk_is_full);
  CHECK(good.ending.exit_code == 11);
  CHECK(closed == 2);
  const auto bad = run(fake_run::request(folder, "kill -9 $$\n"), closed, nullptr, disk_is_full);
  CHECK(bad.ending.exit_code == 7);
  CHECK_THAT(bad.ending.message, Contains("SIGKILL"));
  CHECK(read_result(bad)["exit_code"] == 7);
  CHECK(closed == 4);
}

TEST_CASE("run: a sink that cannot write an event ends the run, and all sinks are closed") {
  TempFolder folder;
  int closed = 0;
  const auto outcome =
      run(fake_run::request(folder, fake_run::two_epochs()), closed, disk_is_full, nullptr);
  CHECK(outcome.ending.exit_code == 11);
  CHECK(outcome.ending.message == "no space left");
  CHECK(closed == 2);
}

TEST_CASE("run: weights of a torch file exist only while the worker runs") {
  TempFolder folder;
  int closed = 0;
  study::RunRequest request =
      fake_run::request(folder, "test -s \"$3/weights.safetensors\" || exit 3\n" +
                                    fake_run::emit(events::WeightsSet{.path = "module.pth"}) +
                                    fake_run::two_epochs());
  request.loaded.experiment.weights.emplace().path = golden_folder() / "torch/module.pth";
  const study::RunOutcome outcome = run(request, closed, nullptr, nullptr);
  CHECK(outcome.ending.exit_code == 0);
  CHECK_FALSE(fs::exists(outcome.folder / "weights.safetensors"));
  const Json manifest =
      Json::parse(read_file(outcome.folder / "manifest.json", 1 << 20, ReadFailure::resource));
  CHECK(manifest["weights"]["path"] == "module.pth");
}

TEST_CASE("run: weights that cannot be imported end the run before workers start") {
  TempFolder folder;
  int closed = 0;
  study::RunRequest request = fake_run::request(folder, fake_run::two_epochs());
  request.loaded.experiment.weights.emplace().path = golden_folder() / "torch/whole_model.pth";
  const study::RunOutcome outcome = run(request, closed, nullptr, nullptr);
  CHECK(outcome.ending.exit_code == 10);
  CHECK_THAT(outcome.ending.message, StartsWith("weights: ") && Contains("it uses torch.nn."));
  CHECK(outcome.record.hellos.empty());
  CHECK(closed == 2);
}
