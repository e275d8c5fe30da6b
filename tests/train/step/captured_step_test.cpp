#include "train/step/captured_step.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

using namespace trainctl;

namespace {

/// Logs the calls; a capture may fail.
class FakeGraph final : public device::StepGraph {
 public:
  struct Log {
    std::string calls;
    std::exception_ptr failure;  // thrown by a capture, after the work
    bool destroyed = false;
  };
  explicit FakeGraph(Log& log) : log_(log) {}
  ~FakeGraph() override { log_.destroyed = true; }
  void warm_up(const Work& work) override {
    log_.calls += 'w';
    work();
  }
  void record(const Work& work) override {
    log_.calls += 'r';
    work();
    if (log_.failure) std::rethrow_exception(log_.failure);
  }
  void replay() override { log_.calls += 'p'; }

 private:
  Log& log_;
};

struct Steps {
  Steps()
      : timer(clock, nullptr),
        captured(std::make_unique<FakeGraph>(graph), timer, [this](const events::Event& event) {
          reported.push_back(std::get<events::Warning>(event).message);
        }) {
    batch.inputs = at::zeros({2, 3});
    batch.targets = at::zeros({2}, at::kLong);
  }

  void take(int steps) {
    for (int i = 0; i < steps; ++i) {
      captured.take(batch, [this] {
        graph.calls += 's';
        timer.enter(train::Part::backward);
        clock.advance(1);
        timer.enter(train::Part::other);
      });
    }
  }

  ManualClock clock;
  train::PartTimer timer;
  FakeGraph::Log graph;
  std::vector<std::string> reported;
  device::DeviceBatch batch;
  train::CapturedStep captured;
};

}  // namespace

TEST_CASE("CapturedStep: three warm-up steps, one capture, then replays") {
  Steps steps;
  steps.take(6);
  CHECK(steps.graph.calls == "wswswsrsppp");
  CHECK(steps.reported.empty());
}

TEST_CASE("CapturedStep: without a graph every step runs eagerly, as on a CPU") {
  CHECK(device::make_step_graph(at::kCPU) == nullptr);
  Steps steps;
  int taken = 0;
  train::CapturedStep none(nullptr, steps.timer, [](const events::Event&) {});
  for (int i = 0; i < 6; ++i) none.take(steps.batch, [&] { ++taken; });
  CHECK(taken == 6);
}

TEST_CASE("CapturedStep: the time of the capture is not counted as step time") {
  Steps steps;
  steps.timer.begin_epoch();
  steps.take(5);
  const events::Timing timing = steps.timer.end_epoch(5);
  CHECK(timing.backward_s == 3);  // of the warm-up
  CHECK(timing.other_s == 1);
  CHECK(timing.wall_s == 4);
}

TEST_CASE("CapturedStep: a batch at another address runs eagerly and the graph is kept") {
  Steps steps;
  steps.take(4);
  const device::DeviceBatch usual = steps.batch;
  steps.graph.calls.clear();
  SECTION("new inputs") { steps.batch.inputs = at::zeros({2, 3}); }
  SECTION("new targets") { steps.batch.targets = at::zeros({2}, at::kLong); }
  SECTION("mixed targets") { steps.batch.lambda = at::zeros({2}); }
  steps.take(1);
  CHECK(steps.graph.calls == "s");
  steps.batch = usual;
  steps.take(1);
  CHECK(steps.graph.calls == "sp");
}

TEST_CASE("CapturedStep: a step that cannot be captured runs eagerly, with one warning") {
  Steps steps;
  steps.take(3);
  steps.graph.calls.clear();
  SECTION("an error of libtorch") {
    steps.graph.failure = std::make_exception_ptr(
        c10::Error({__func__, __FILE__, 0}, "operation not permitted\nFor debugging consider"));
  }
  SECTION("an error of trainctl") {
    steps.graph.failure =
        std::make_exception_ptr(Error(ErrorKind::resource, "operation not permitted"));
  }
  steps.take(3);
  CHECK(steps.graph.calls == "rssss");  // captured, then run three times
  CHECK(steps.graph.destroyed);
  REQUIRE(steps.reported.size() == 1);
  CHECK_THAT(steps.reported.front(),
             Contains("could not be captured") && EndsWith("operation not permitted"));
  steps.timer.begin_epoch();
  steps.take(1);
  CHECK(steps.timer.end_epoch(1).backward_s == 1);  // the timer continues
}

TEST_CASE("CapturedStep: a required capture that fails is a config error") {
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  FakeGraph::Log log;
  log.failure = std::make_exception_ptr(
      c10::Error({__func__, __FILE__, 0}, "operation not permitted\nFor debugging consider"));
  train::CapturedStep step(
      std::make_unique<FakeGraph>(log), timer,
      [](const events::Event&) { FAIL("a warning was emitted"); },
      train::CapturedStep::OnCaptureFailure::fail);
  const device::DeviceBatch batch;
  for (int i = 0; i < train::CapturedStep::kWarmUps; ++i) step.take(batch, [] {});
  try {
    step.take(batch, [] {});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("trainer.cuda_graphs is true, but a step could not be "
                                      "captured: operation not permitted\nhint: set"));
  }
  CHECK(log.destroyed);
}

TEST_CASE("CapturedStep: a dropped graph is not replayed") {
  Steps steps;
  steps.take(5);
  steps.captured.drop();
  CHECK(steps.graph.destroyed);
  steps.graph.calls.clear();
  steps.take(2);
  CHECK(steps.graph.calls == "ss");
}

namespace {

/// A fake run as the trainer would see it on one GPU.
struct CaptureCase {
  FakeRun run;
  train::Options options;
  train::PartTimer timer{*run.clock, nullptr};

  CaptureCase() { options.cuda_graphs = {}; }
  [[nodiscard]] train::Session session() {
    return {.model = run.model,
            .loss = run.loss,
            .optimizer = run.optimizer,
            .scheduler = run.scheduler,
            .metrics = run.metrics,
            .train = *run.train,
            .batch_size = run.sizes.batch,
            .communicator = *run.communicator,
            .clock = *run.clock,
            .emit = [this](const events::Event& event) { run.events.push_back(event); }};
  }
  std::unique_ptr<train::CapturedStep> make() {
    return train::make_captured_step(session(), options, timer);
  }
};

}  // namespace

TEST_CASE("cuda_graphs: an optimizer that does not support capture prevents it") {
  CaptureCase capture;
  CHECK_THAT(train::capture_obstacle(capture.session(), capture.options).value_or("none"),
             Contains("optimizer keeps its learning rate"));
  capture.options.capture_obstacle = "another obstacle";
  CHECK(train::capture_obstacle(capture.session(), capture.options) == "another obstacle");
}

TEST_CASE("cuda_graphs: a scheduler that cycles the momentum prevents the capture") {
  CaptureCase capture;
  capture.run.scheduler.cycles = true;
  CHECK_THAT(train::capture_obstacle(capture.session(), capture.options).value_or("none"),
             Contains("changes the momentum"));
}

TEST_CASE(
    "cuda_graphs: an optimizer that checks for skipped steps on the host prevents the capture") {
  CaptureCase capture;
  capture.run.optimizer.repeatable = true;
  const auto obstacle = [&] {
    return train::capture_obstacle(capture.session(), capture.options).value_or("none");
  };
  CHECK(obstacle() == "none");
  SECTION("skip_nonfinite_steps") { capture.options.may_skip = 3; }
  SECTION("float16") { capture.options.forward.precision = spec::Precision::fp16_mixed; }
  CHECK_THAT(obstacle(), Contains("the optimizer decides on the CPU"));
  capture.run.optimizer.skips = true;
  CHECK(obstacle() == "none");
}

TEST_CASE("cuda_graphs: norms that are logged at every step prevent the capture") {
  CaptureCase capture;
  capture.run.optimizer.repeatable = true;
  capture.options.log_norms = true;
  CHECK_FALSE(train::capture_obstacle(capture.session(), capture.options).has_value());
  capture.options.log_every = 1;
  CHECK_THAT(train::capture_obstacle(capture.session(), capture.options).value_or("none"),
             Contains("trainer.log_norms"));
}

TEST_CASE("cuda_graphs: auto warns of an obstacle on a GPU only, and false never warns") {
  CaptureCase capture;
  capture.options.capture_obstacle = "the run is on a CPU";
  CHECK(capture.make() == nullptr);
  CHECK(capture.run.events.empty());
  capture.options.device = at::Device(at::kCUDA, 0);
  capture.options.capture_obstacle = "the profiler records single operations";
  CHECK(capture.make() == nullptr);
  REQUIRE(capture.run.all<events::Warning>().size() == 1);
  CHECK_THAT(capture.run.all<events::Warning>().front().message,
             Contains("CUDA graphs are not used: the profiler"));
  capture.options.cuda_graphs = {false};
  CHECK(capture.make() == nullptr);
  CHECK(capture.run.events.size() == 1);
}

TEST_CASE("cuda_graphs=true: a run without CUDA graphs is a config error") {
  CaptureCase capture;
  capture.options.cuda_graphs = {true};
  capture.options.capture_obstacle = "the run is on a CPU";
  try {
    capture.make();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("trainer.cuda_graphs is true, but the run is on a CPU") &&
                                 Contains("trainer.cuda_graphs=auto"));
  }
}

TEST_CASE("cuda_graphs=auto: a run on a CPU has the same result and no warning") {
  FakeRun plain;
  FakeRun asked;
  asked.optimizer.repeatable = true;  // no obstacle, but a CPU has no graphs
  asked.options.cuda_graphs = {};
  CHECK(asked.run().parameter_digest == plain.run().parameter_digest);
  CHECK(asked.all<events::Warning>().empty());
}
