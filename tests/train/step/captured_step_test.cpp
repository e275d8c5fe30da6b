#include "train/step/captured_step.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"
#include "support/rank_group.hpp"
#include "train/fake_run.hpp"

#include <array>

using namespace trainctl;

namespace {

/// Logs the calls; a capture may fail.
class FakeGraph final : public device::StepGraph {
 public:
  struct Log {
    std::string calls;
    std::exception_ptr failure;  // thrown by a capture, after the work
    std::size_t fails_at = 0;    // the number of the graph whose capture fails
    bool destroyed = false;
  };
  explicit FakeGraph(Log& log) : log_(log) {}
  ~FakeGraph() override { log_.destroyed = true; }
  void warm_up(const Work& work) override {
    log_.calls += 'w';
    work();
  }
  std::size_t record(const Work& work) override {
    log_.calls += 'r';
    work();
    if (log_.failure && graphs_ == log_.fails_at) std::rethrow_exception(log_.failure);
    return graphs_++;
  }
  void replay(std::size_t graph) override {
    REQUIRE(graph < graphs_);
    log_.calls += static_cast<char>('0' + graph);
  }

 private:
  Log& log_;
  std::size_t graphs_ = 0;
};

using Window = train::CapturedStep::Window;

struct Steps {
  explicit Steps(std::int64_t eager_windows = 0)
      : timer(clock, nullptr),
        communicator(dist::make_single()),
        captured({.graph = std::make_unique<FakeGraph>(graph),
                  .timer = timer,
                  .emit =
                      [this](const events::Event& event) {
                        reported.push_back(std::get<events::Warning>(event).message);
                      },
                  .communicator = *communicator,
                  .parameters = {weight},
                  .eager_windows = eager_windows}) {
    batch.inputs = at::zeros({2, 3});
    batch.targets = at::zeros({2}, at::kLong);
  }

  void take(int steps) {
    for (int i = 0; i < steps; ++i) take_batch({.batch = batch});
  }

  void take_batch(const train::MicroBatch& micro, Window window = Window::usual) {
    captured.take(micro, window, [this] {
      graph.calls += 's';
      timer.enter(train::Part::backward);
      clock.advance(1);
      timer.enter(train::Part::other);
    });
  }

  /// Takes windows of four batches.
  void take_windows(int windows, Window window = Window::usual) {
    for (int i = 0; i < windows; ++i) {
      for (int at = 0; at < 4; ++at)
        take_batch({.batch = batch, .opens = at == 0, .closes = at == 3}, window);
    }
  }

  ManualClock clock;
  train::PartTimer timer;
  FakeGraph::Log graph;
  std::vector<std::string> reported;
  device::DeviceBatch batch;
  at::Tensor weight = at::zeros({2});
  std::unique_ptr<dist::Communicator> communicator;
  train::CapturedStep captured;
};

std::exception_ptr not_permitted() {
  return std::make_exception_ptr(
      c10::Error({__func__, __FILE__, 0}, "operation not permitted\nFor debugging consider"));
}

}  // namespace

TEST_CASE("CapturedStep: three warm-up steps, one capture, then replays") {
  Steps steps;
  steps.take(6);
  CHECK(steps.graph.calls == "wswswsrs000");
  CHECK(steps.reported.empty());
}

TEST_CASE("CapturedStep: without a graph every step runs eagerly, as on a CPU") {
  CHECK(device::make_step_graph(at::kCPU) == nullptr);
  Steps steps;
  int taken = 0;
  train::CapturedStep none({.graph = nullptr,
                            .timer = steps.timer,
                            .emit = [](const events::Event&) {},
                            .communicator = *steps.communicator});
  for (int i = 0; i < 6; ++i) none.take({.batch = steps.batch}, Window::usual, [&] { ++taken; });
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
  CHECK(steps.graph.calls == "s0");
}

TEST_CASE("CapturedStep: a step that cannot be captured runs eagerly, with one warning") {
  Steps steps;
  steps.take(3);
  steps.graph.calls.clear();
  SECTION("an error of libtorch") { steps.graph.failure = not_permitted(); }
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
  log.failure = not_permitted();
  const auto communicator = dist::make_single();
  train::CapturedStep step({.graph = std::make_unique<FakeGraph>(log),
                            .timer = timer,
                            .emit = [](const events::Event&) { FAIL("a warning was emitted"); },
                            .communicator = *communicator,
                            .on_failure = train::CapturedStep::OnCaptureFailure::fail});
  const device::DeviceBatch batch;
  const auto take = [&] { step.take({.batch = batch}, Window::usual, [] {}); };
  for (int i = 0; i < train::CapturedStep::kWarmUps; ++i) take();
  try {
    take();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("trainer.cuda_graphs is true, but a step could not be "
                                      "captured: operation not permitted\nhint: set"));
  }
  CHECK(log.destroyed);
}

TEST_CASE("CapturedStep: a required capture without memory, and a lost rank, keep their error") {
  const ErrorKind kind = GENERATE(ErrorKind::resource, ErrorKind::rank_failed, ErrorKind::hang);
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  FakeGraph::Log log;
  log.failure = std::make_exception_ptr(Error(kind, "the cause"));
  const auto communicator = dist::make_single();
  train::CapturedStep step({.graph = std::make_unique<FakeGraph>(log),
                            .timer = timer,
                            .emit = [](const events::Event&) {},
                            .communicator = *communicator,
                            .on_failure = train::CapturedStep::OnCaptureFailure::fail});
  const device::DeviceBatch batch;
  const auto take = [&] { step.take({.batch = batch}, Window::usual, [] {}); };
  for (int i = 0; i < train::CapturedStep::kWarmUps; ++i) take();
  try {
    take();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    CHECK(std::string(error.what()) == "the cause");
  }
}

TEST_CASE("CapturedStep: a required capture for which CUDA refuses memory keeps its error") {
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  FakeGraph::Log log;
  constexpr int kOutOfMemory = 2;
  log.failure = std::make_exception_ptr(
      c10::AcceleratorError({__func__, __FILE__, 0}, kOutOfMemory, "CUDA error: out of memory"));
  const auto communicator = dist::make_single();
  train::CapturedStep step({.graph = std::make_unique<FakeGraph>(log),
                            .timer = timer,
                            .emit = [](const events::Event&) {},
                            .communicator = *communicator,
                            .on_failure = train::CapturedStep::OnCaptureFailure::fail});
  const device::DeviceBatch batch;
  const auto take = [&] { step.take({.batch = batch}, Window::usual, [] {}); };
  for (int i = 0; i < train::CapturedStep::kWarmUps; ++i) take();
  CHECK_THROWS_AS(take(), c10::AcceleratorError);
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

TEST_CASE("CapturedStep: the batches of a window are captured by their kind and replayed") {
  Steps steps;
  steps.take_windows(3);
  CHECK(steps.graph.calls == "wswswswswswswswswswswsws");
  steps.graph.calls.clear();
  steps.take_windows(1);
  CHECK(steps.graph.calls == "rs0rs11rs2");
  steps.graph.calls.clear();
  steps.take_windows(2);
  CHECK(steps.graph.calls == "01120112");
}

TEST_CASE("CapturedStep: a window that differs from the others runs eagerly, also as warm-up") {
  Steps steps;
  steps.take_windows(1, Window::other);
  CHECK(steps.graph.calls == "ssss");
  steps.take_windows(4);
  steps.graph.calls.clear();
  steps.take_windows(1, Window::other);
  steps.take_windows(1);
  CHECK(steps.graph.calls == "ssss0112");
}

TEST_CASE("CapturedStep: from a batch at another address on the window runs eagerly") {
  Steps steps;
  steps.take_windows(4);
  const device::DeviceBatch usual = steps.batch;
  device::DeviceBatch moved = usual;
  moved.inputs = at::zeros({2, 3});
  steps.graph.calls.clear();
  steps.take_batch({.batch = usual, .closes = false});
  steps.take_batch({.batch = moved, .opens = false, .closes = false});
  steps.take_batch({.batch = usual, .opens = false, .closes = false});
  steps.take_batch({.batch = usual, .opens = false});
  CHECK(steps.graph.calls == "0sss");
  steps.take_windows(1);
  CHECK(steps.graph.calls == "0sss0112");
}

TEST_CASE("CapturedStep: a capture that fails within a window continues with its gradients") {
  Steps steps;
  steps.weight.mutable_grad() = at::ones({2});  // as if the first batch had been captured
  const void* recorded = steps.weight.grad().const_data_ptr();
  steps.graph.failure = not_permitted();
  steps.graph.fails_at = 1;
  steps.take_windows(3);
  steps.graph.calls.clear();
  steps.take_batch({.batch = steps.batch, .closes = false});
  CHECK(steps.graph.calls == "rs0");
  steps.weight.mutable_grad() = at::zeros({2});  // as a failed capture leaves it
  steps.take_batch({.batch = steps.batch, .opens = false, .closes = false});
  CHECK(steps.graph.calls == "rs0rss");
  CHECK(steps.weight.grad().const_data_ptr() == recorded);
  CHECK(steps.graph.destroyed);
  CHECK(steps.reported.size() == 1);
  steps.take_batch({.batch = steps.batch, .opens = false});
  steps.take_windows(1);
  CHECK(steps.graph.calls == "rs0rsssssss");
  CHECK(steps.reported.size() == 1);
}

TEST_CASE("CapturedStep: a replay after an eager window gives the parameters their gradients") {
  Steps steps;
  steps.weight.mutable_grad() = at::ones({2});
  const void* recorded = steps.weight.grad().const_data_ptr();
  steps.take(4);
  steps.take_batch({.batch = steps.batch}, Window::other);
  steps.weight.mutable_grad() = at::zeros({2});  // as the eager step left it
  steps.take(1);
  CHECK(steps.weight.grad().const_data_ptr() == recorded);
}

TEST_CASE("CapturedStep: windows that are profiled come before the warm-up") {
  Steps steps(2);
  steps.take(7);
  CHECK(steps.graph.calls == "sswswswsrs00");
}

TEST_CASE("CapturedStep: if the capture fails on one rank, all run eagerly, and it warns") {
  RankGroup group(3);
  std::array<std::string, 3> calls;
  std::array<std::vector<std::string>, 3> reported;
  group.run_all([&](int rank, std::unique_ptr<dist::Communicator> communicator) {
    ManualClock clock;
    train::PartTimer timer(clock, nullptr);
    const auto at = static_cast<std::size_t>(rank);
    FakeGraph::Log log;
    if (rank > 0) log.failure = not_permitted();
    train::CapturedStep step({.graph = std::make_unique<FakeGraph>(log),
                              .timer = timer,
                              .emit =
                                  [&](const events::Event& event) {
                                    reported[at].push_back(
                                        std::get<events::Warning>(event).message);
                                  },
                              .communicator = *communicator});
    const device::DeviceBatch batch;
    for (int i = 0; i < 6; ++i)
      step.take({.batch = batch}, Window::usual, [&] { log.calls += 's'; });
    calls[at] = log.calls;
  });
  for (const std::string& each : calls) CHECK(each == "wswswsrssss");
  CHECK(reported[0].empty());
  REQUIRE(reported[1].size() == 1);  // the lowest rank that failed
  CHECK_THAT(reported[1].front(), Contains("operation not permitted"));
  CHECK(reported[2].empty());
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
            .emit = [this](const events::Event& event) { run.events.push_back(event); },
            .make_graph = [](at::Device) { return nullptr; }};
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
  CHECK(train::records_steps(capture.session(), capture.options));
  capture.options.log_every = 1;
  CHECK_FALSE(train::records_steps(capture.session(), capture.options));
  CHECK_THAT(train::capture_obstacle(capture.session(), capture.options).value_or("none"),
             Contains("trainer.log_norms"));
}

TEST_CASE("cuda_graphs: auto warns of an obstacle on a GPU only, and false never warns") {
  CaptureCase capture;
  capture.options.capture_obstacle = "the run is on a CPU";
  CHECK(capture.make() == nullptr);
  CHECK(capture.run.events.empty());
  capture.options.device = at::Device(at::kCUDA, 0);
  capture.options.capture_obstacle = "the model synchronizes";
  CHECK(capture.make() == nullptr);
  REQUIRE(capture.run.all<events::Warning>().size() == 1);
  CHECK_THAT(capture.run.all<events::Warning>().front().message,
             Contains("CUDA graphs are not used: the model synchronizes"));
  capture.options.cuda_graphs = {false};
  CHECK(capture.make() == nullptr);
  CHECK(capture.run.events.size() == 1);
}

TEST_CASE("cuda_graphs: each obstacle of a run is reported once") {
  CaptureCase capture;
  capture.options.device = at::Device(at::kCUDA, 0);
  capture.run.optimizer.repeatable = true;
  std::string reason;
  SECTION("scheduler") {
    capture.run.scheduler.cycles = true;
    reason = "the scheduler changes the momentum";
  }
  SECTION("optimizer") {
    capture.run.optimizer.repeatable = false;
    reason = "the optimizer keeps its learning rate on the CPU";
  }
  SECTION("skipped steps") {
    capture.options.may_skip = 1;
    reason = "the optimizer decides on the CPU";
  }
  SECTION("norms") {
    capture.options.log_norms = true;
    capture.options.log_every = 1;
    reason = "trainer.log_norms runs logged steps";
  }
  SECTION("experiment") { reason = *(capture.options.capture_obstacle = "it is a plug-in"); }
  CHECK(capture.make() == nullptr);
  const auto warnings = capture.run.all<events::Warning>();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings.front().message, Contains("CUDA graphs are not used: " + reason));
}

TEST_CASE("cuda_graphs: with a profiler, one warning says when the capture begins") {
  CaptureCase capture;
  capture.run.optimizer.repeatable = true;
  capture.options.device = at::Device(at::kCUDA, 0);
  capture.options.profiler = spec::Profiler{.wait = 10, .warmup = 2, .active = 5};
  CHECK(capture.make() != nullptr);
  REQUIRE(capture.run.all<events::Warning>().size() == 1);
  CHECK_THAT(capture.run.all<events::Warning>().front().message,
             Contains("CUDA graphs are not used for the first 17 steps: the profiler"));
  capture.options.profiler->cuda_graphs = true;
  CHECK(capture.make() != nullptr);
  CHECK(capture.run.all<events::Warning>().size() == 1);
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
