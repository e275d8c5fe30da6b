#include "base/machine/host_waits.hpp"
#include "checkpoint/store.hpp"
#include "device/fake_events.hpp"
#include "support/catch.hpp"
#include "train/fake_run.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;

namespace {

constexpr std::int64_t kSteps = 20;  // of an epoch
constexpr std::int64_t kLogEvery = 5;

using Losses = std::vector<std::pair<std::int64_t, double>>;  // by step

Losses from_step(Losses losses, std::int64_t first) {
  std::erase_if(losses, [first](const auto& one) { return one.first < first; });
  return losses;
}

/// Notes the losses of the log points.
struct NotingStopper final : stage::Stopper {
  Losses seen;
  stage::StopDecision observe(std::int64_t /*epoch*/, double /*monitored*/) override { return {}; }
  stage::StopDecision observe_step(std::int64_t global_step, double loss) override {
    seen.emplace_back(global_step, loss);
    return {};
  }
  [[nodiscard]] std::string monitor() const override { return "train/loss"; }
  [[nodiscard]] bool restore_best() const override { return false; }
};

/// Two epochs with checkpoints and log points in them, on a device that is `lag` steps late. The
/// tensors are on the CPU.
struct LateRun : FakeRun {
  FakeDevice gpu;
  std::deque<int> ends;  // the work launched before each of the last steps
  NotingStopper* noting = nullptr;
  std::map<std::string, std::int64_t> waits, waits_in_steps;

  explicit LateRun(std::size_t lag)
      : FakeRun({.samples = 4 * kSteps, .batch = 4, .val_samples = 0}) {
    options.log_every = kLogEvery;
    options.max_epochs = 2;
    options.may_skip = 2;  // the state of a scaler is saved, too
    options.saving = train::Saving{.top_k = -1, .every_n_steps = 7};
    auto stopping = std::make_unique<NotingStopper>();
    noting = stopping.get();
    real_stopper = std::move(stopping);
    make_event = [this](at::Device) { return gpu.event(); };
    loss.after = [this, lag](const at::Tensor& value, int call) {
      if (call % kSteps == 0) waits = host_waits();
      if (call % kSteps == kSteps - 1) {
        for (const auto& [place, count] : host_waits_since(waits)) waits_in_steps[place] += count;
      }
      ends.push_back(gpu.launched);
      if (ends.size() > lag) {
        gpu.finish(ends.front());
        ends.pop_front();
      }
      return value;
    };
    on_event = [this](const events::Event& event) {
      if (std::holds_alternative<events::EpochEnded>(event)) gpu.finish_all();
    };
  }

  [[nodiscard]] Losses lines() const {
    Losses losses;
    for (const auto& line : all<events::StepLogged>())
      losses.emplace_back(line.global_step, line.loss);
    return losses;
  }
  [[nodiscard]] std::map<std::int64_t, std::filesystem::path> checkpoints() const {
    std::map<std::int64_t, std::filesystem::path> found;
    for (const auto& one : checkpoint::Store(folder.path() / "checkpoints").list())
      found[one.moment.global_step] = one.path;
    return found;
  }
};

}  // namespace

TEST_CASE("Checkpointer: on a GPU, steps with a checkpoint do not wait for the device") {
  const std::size_t lag = GENERATE(0, 1, 3);
  LateRun run(lag);
  run.run();
  run.waits_in_steps.erase("copy of a checkpoint to pageable memory");  // that of this test
  CHECK(run.waits_in_steps.empty());
  CHECK(run.checkpoints().size() == 7);
  CHECK(run.all<events::Warning>().empty());
}

TEST_CASE("Checkpointer: a run that resumes with an open log point is equal to the whole run") {
  const std::size_t lag = GENERATE(0, 3);
  LateRun whole(lag);
  whole.run();
  REQUIRE(whole.lines().size() == 2 * kSteps / kLogEvery);
  for (const auto& [step, path] : whole.checkpoints()) {
    CAPTURE(lag, step);
    if (step % kSteps == 0) continue;
    LateRun resumed(lag);
    resumed.resume = path;
    resumed.run();
    CHECK(torch::equal(resumed.model.weight, whole.model.weight));
    CHECK(resumed.lines() == from_step(whole.lines(), step + 1));
    const std::int64_t open_at = std::max(step / kLogEvery * kLogEvery, step / kSteps * kSteps + 1);
    CHECK(resumed.noting->seen == from_step(whole.noting->seen, open_at));
  }
}

TEST_CASE("Checkpointer: an open log point of an epoch that starts again is dropped") {
  LateRun whole(3);
  whole.run();
  LateRun resumed(3);
  resumed.resume = whole.checkpoints().at(7);
  resumed.resume_epoch = train::PartialEpoch::restart;
  resumed.run();
  CHECK(resumed.noting->seen == resumed.lines());
  CHECK(resumed.lines().front().first == 10);
}

TEST_CASE("Checkpointer: a checkpoint is written after the line of the last log point") {
  LateRun run(3);
  bool was_open = false;
  run.loss.after = [&, late = run.loss.after](const at::Tensor& value, int call) {
    const auto lines = static_cast<std::int64_t>(run.lines().size());
    for (const auto& [step, path] : run.checkpoints()) CHECK(step / kLogEvery <= lines);
    was_open = was_open || call / kLogEvery > lines;
    return late(value, call);
  };
  run.run();
  CHECK(was_open);
}
