#include "train/loop/progress_reporter.hpp"

#include "base/machine/host_waits.hpp"
#include "device/fake_events.hpp"
#include "train/hand_over.hpp"
#include "train/step/captured_step.hpp"

#include <cmath>

using namespace trainctl;

namespace {

constexpr std::int64_t kLogEvery = 10;
constexpr int kSteps = 100;

enum class Reads { at_once, late };

/// The part of the training loop that a log point needs, with a device that runs some steps late
/// The tensors are on the CPU.
struct Steps {
  FakeDevice gpu;
  FakeRun run{{.samples = 4 * kSteps, .batch = 4, .val_samples = 0}};
  train::Options options;
  train::Session session = session_of(run);
  train::LoopState state;
  train::Phases phases{session, options, state};
  dist::GradSync sync;
  train::PartTimer timer{*run.clock,
                         device::make_event_timer(gpu.events(), static_cast<int>(train::kParts))};
  std::unique_ptr<device::Feed> feed = device::make_feed(
      at::kCPU, {.layout = run.train->layout(), .max_rows = 4, .classes = run.train->classes()});
  device::PendingCopies copies{gpu.events(), 4};
  std::optional<train::StepRunner> step;
  std::optional<train::ProgressReporter> reporter;
  std::vector<std::int64_t> emitted_at;  // the steps that emitted the lines
  std::vector<int> ends;                 // the work that each step has launched

  explicit Steps(Reads reads, std::int64_t may_skip = 0) {
    options.log_every = kLogEvery;
    options.log_norms = true;
    options.may_skip = may_skip;
    session.emit = [this](const events::Event& event) {
      run.events.push_back(event);
      if (std::holds_alternative<events::StepLogged>(event))
        emitted_at.push_back(state.position.global_step);
    };
    if (reads == Reads::late) session.make_event = [this](at::Device) { return gpu.event(); };
    step.emplace(session, options, timer, sync);
    reporter.emplace(session, options, phases, *step, sync);
    run.train->start_epoch(0);
    timer.begin_epoch();
  }

  /// Runs a step; the device has then finished all but the last `lag` steps. Without `work`, the
  /// step is eager.
  void take(int lag, const std::function<void(const device::DeviceBatch&)>& work = {}) {
    timer.enter(train::Part::data_wait);
    const data::Batch& batch = *run.train->next();
    timer.enter(train::Part::h2d);
    const device::DeviceBatch& on_device = feed->put(batch);
    copies.current().record();
    copies.advance();
    step->begin_step(0.1, std::nullopt);
    if (work) {
      work(on_device);
    } else {
      const bool logs = (state.position.global_step + 1) % kLogEvery == 0;
      (void)step->run({.batch = on_device, .window_rows = 4, .logs = logs});
    }
    ++state.position.global_step;
    reporter->on_step_end(state);
    ends.push_back(gpu.launched);
    const auto late = static_cast<std::size_t>(lag);
    if (ends.size() > late) gpu.finish(ends[ends.size() - 1 - late]);
  }
  void take_until(std::int64_t last, int lag) {
    while (state.position.global_step < last) take(lag);
  }
  [[nodiscard]] std::vector<events::StepLogged> lines() const {
    return run.all<events::StepLogged>();
  }
};

/// A graph whose replay is `replayed`.
class FakeGraph final : public device::StepGraph {
 public:
  explicit FakeGraph(std::function<void()> replayed) : replayed_(std::move(replayed)) {}
  void warm_up(const Work& work) override { work(); }
  std::size_t record(const Work& work) override {
    work();
    return 0;
  }
  void replay(std::size_t /*graph*/) override { replayed_(); }

 private:
  std::function<void()> replayed_;
};

/// Makes the losses of the calls from `first` to `last` non-finite.
std::function<at::Tensor(const at::Tensor&, int)> broken(int first, int last) {
  return [=](const at::Tensor& loss, int call) {
    return call >= first && call <= last ? loss * std::nan("") : loss;
  };
}

}  // namespace

TEST_CASE("ProgressReporter: on a GPU, steps do not wait for the values of the log points") {
  const int lag = GENERATE(0, 1, 3);
  Steps expected(Reads::at_once);
  expected.take_until(kSteps, 0);
  Steps late(Reads::late);
  const auto before = host_waits();
  late.take_until(kSteps, lag);
  CHECK(host_waits_since(before).empty());
  late.gpu.finish_all();
  late.reporter->on_train_epoch_end(late.state);
  CHECK(host_waits_since(before).empty());
  CHECK(late.gpu.waits == 0);
  REQUIRE(late.lines().size() == kSteps / kLogEvery);
  for (std::size_t i = 0; i < late.lines().size(); ++i) {
    const events::StepLogged found = late.lines()[i], wanted = expected.lines()[i];
    CHECK(found.global_step == wanted.global_step);
    CHECK(found.loss == wanted.loss);
    CHECK(found.grad_norm == wanted.grad_norm);
    CHECK(found.param_norm == wanted.param_norm);
    CHECK(expected.emitted_at[i] == wanted.global_step);
    if (i + 1 < late.lines().size()) CHECK(late.emitted_at[i] == found.global_step + lag + 1);
  }
  CHECK(late.timer.end_epoch(4 * kSteps).forward_s > 0);
}

TEST_CASE("ProgressReporter: a slow GPU is waited for only at the limit of steps in flight") {
  Steps late(Reads::late);
  const auto before = host_waits();
  late.take_until(kSteps, 9);
  const auto waits = host_waits_since(before);
  REQUIRE(waits.size() == 1);
  CHECK(waits.begin()->first == device::PendingCopies::kPlace);
}

TEST_CASE("ProgressReporter: steps that a graph replays do not wait between two log points") {
  Steps late(Reads::late);
  const at::Tensor loss = torch::tensor(0.5F);
  train::CapturedStep captured({.graph = std::make_unique<FakeGraph>([&] {
                                  ++late.gpu.launched;
                                  late.step->meter().add({loss, {}}, 4);
                                }),
                                .timer = late.timer,
                                .emit = late.session.emit,
                                .communicator = *late.run.communicator});
  const auto before = host_waits();
  for (int i = 0; i < kSteps; ++i) {
    late.take(2, [&](const device::DeviceBatch& batch) {
      captured.take({.batch = batch}, train::CapturedStep::Window::usual,
                    [&] { (void)late.step->run({.batch = batch, .window_rows = 4}); });
    });
  }
  CHECK(host_waits_since(before).empty());
  REQUIRE(late.lines().size() == kSteps / kLogEvery - 1);
  CHECK(late.lines().back().loss == 0.5);
}

TEST_CASE("ProgressReporter: all ranks decide at the next log point, or when they settle") {
  Steps late(Reads::late);
  late.run.loss.after = broken(4, 4);
  SECTION("at the next log point") {
    late.take_until(2 * kLogEvery - 1, 0);
    CHECK(std::isnan(late.lines().at(0).loss));  // emitted, although nothing is decided
    CHECK_FALSE(late.state.diverged);
    late.take(0);
  }
  SECTION("settled for a checkpoint") {
    late.take_until(kLogEvery, 3);
    CHECK(late.lines().empty());
    const auto before = host_waits();
    late.reporter->settle(late.state);
    CHECK(host_waits_since(before).at("values of a log point") == 1);
    CHECK(late.lines().size() == 1);
  }
  REQUIRE(late.state.diverged);
  CHECK_THAT(late.state.diverged->what, Contains("the training loss is nan"));
}

TEST_CASE("ProgressReporter: the loss of a log point is passed on once, with its step") {
  Steps late(Reads::late);
  late.take_until(2 * kLogEvery - 1, 1);
  CHECK_FALSE(late.state.logged_loss);
  late.take(1);
  CHECK(late.state.logged_loss == late.lines().at(0).loss);
  CHECK(late.state.logged_step == kLogEvery);
  late.state.logged_loss.reset();
  late.reporter->settle(late.state);
  CHECK(late.state.logged_loss == late.lines().at(1).loss);
  late.state.logged_loss.reset();
  late.reporter->settle(late.state);
  CHECK_FALSE(late.state.logged_loss);
}

TEST_CASE("ProgressReporter: too many skipped steps are found without a line for them") {
  Steps late(Reads::late, 2);
  late.run.loss.after = broken(4, 6);
  late.take_until(2 * kLogEvery - 1, 0);
  CHECK(late.lines().empty());
  CHECK_FALSE(late.state.diverged);
  late.take(0);
  REQUIRE(late.state.diverged);
  CHECK_THAT(late.state.diverged->what, Contains("the gradients of 3 steps in a row"));
}
