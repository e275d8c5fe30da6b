#include "train/measure/phase_timer.hpp"

#include "base/json_archive.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

using namespace trainctl;
using train::Part;

namespace {

double sum_of(const events::Timing& timing) {
  double sum = 0;
  for (const events::TimingPhase& phase : events::kTimingPhases) sum += timing.*phase.seconds;
  return sum;
}

/// A device whose step times the test sets.
class FakeEventTimer final : public device::EventTimer {
 public:
  explicit FakeEventTimer(double seconds, Part part = Part::forward)
      : parts_(train::kParts), part_(static_cast<std::size_t>(part)), seconds_(seconds) {}
  void mark(int /*part*/) override {}
  const std::vector<double>& end_step() override {
    parts_[part_] = steps_++ == 0 ? 0 : seconds_;  // the device is one step late
    return parts_;
  }
  const std::vector<double>& finish() override {
    parts_[part_] = seconds_;
    return parts_;
  }

 private:
  std::vector<double> parts_;
  std::size_t part_;
  double seconds_;
  int steps_ = 0;
};

}  // namespace

TEST_CASE("PartTimer: each part of an epoch is timed, and the parts sum to the wall time") {
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  timer.begin_epoch();
  double seconds = 1;
  for (const Part part : {Part::data_wait, Part::h2d, Part::forward, Part::backward,
                          Part::optimizer, Part::eval, Part::checkpoint, Part::other}) {
    timer.enter(part);
    clock.advance(seconds++);
  }
  timer.move(Part::backward, Part::allreduce, 1.5);
  const events::Timing timing = timer.end_epoch(60);
  CHECK(timing.data_wait_s == 1);
  CHECK(timing.forward_s == 3);
  CHECK(timing.backward_s == 2.5);
  CHECK(timing.allreduce_exposed_s == 1.5);
  CHECK(timing.eval_s == 6);
  CHECK(timing.other_s == 8);
  CHECK(timing.wall_s == 36);
  CHECK(sum_of(timing) == Approx(timing.wall_s));
  CHECK(timing.samples_per_s == Approx(60.0 / (36 - 6 - 7)));
  CHECK(timing.first_batch_s == 1);
}

TEST_CASE("PartTimer: a pause is not counted, and the parts still sum to the wall time") {
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  timer.begin_epoch();
  timer.enter(Part::data_wait);
  clock.advance(1);
  timer.enter(Part::forward);
  {
    const train::PartTimer::Pause pause(timer);
    timer.enter(Part::backward);
    clock.advance(2);
    timer.end_step();
  }
  timer.enter(Part::optimizer);
  clock.advance(4);
  const events::Timing timing = timer.end_epoch(1);
  CHECK(timing.data_wait_s == 1);
  CHECK(timing.forward_s == 2);
  CHECK(timing.backward_s == 0);
  CHECK(timing.optimizer_s == 4);
  CHECK(sum_of(timing) == Approx(timing.wall_s));
}

TEST_CASE("PartTimer: the communication time is at most the backward time") {
  ManualClock clock;
  train::PartTimer timer(clock, nullptr);
  timer.begin_epoch();
  timer.enter(Part::backward);
  clock.advance(2);
  timer.enter(Part::allreduce);
  timer.move(Part::backward, Part::allreduce, 5);
  const events::Timing timing = timer.end_epoch(1);
  CHECK(timing.backward_s == 0);
  CHECK(timing.allreduce_exposed_s == 2);
}

TEST_CASE("PartTimer: communication measured on the device is subtracted from its backward time") {
  ManualClock clock;
  train::PartTimer timer(clock, std::make_unique<FakeEventTimer>(1.0, Part::backward));
  timer.begin_epoch();
  const int moving = GENERATE(0, 2);  // in step 0, no time of the device is known yet
  for (int step = 0; step < 3; ++step) {
    timer.enter(Part::backward);
    clock.advance(2);
    timer.move(Part::backward, Part::allreduce, step == moving ? 0.25 : 0);
    timer.enter(Part::other);
    timer.end_step();
  }
  const events::Timing timing = timer.end_epoch(3);
  CHECK(timing.allreduce_exposed_s == 0.25);
  CHECK(sum_of(timing) == Approx(timing.wall_s));
}

TEST_CASE("PartTimer: device times replace host times and still sum to the wall time") {
  const double forward = GENERATE(0.5, 3.0);  // less and more than the host's time
  ManualClock clock;
  train::PartTimer timer(clock, std::make_unique<FakeEventTimer>(forward));
  timer.begin_epoch();
  for (int step = 0; step < 4; ++step) {
    timer.enter(Part::data_wait);
    clock.advance(0.25);
    timer.enter(Part::forward);
    clock.advance(1);
    timer.enter(Part::other);
    timer.end_step();
  }
  timer.enter(Part::eval);
  clock.advance(2);
  const events::Timing timing = timer.end_epoch(4);
  CHECK(timing.wall_s == 7);
  CHECK(timing.eval_s == 2);
  CHECK(sum_of(timing) == Approx(timing.wall_s).epsilon(0.02));
  CHECK(timing.forward_s == Approx(forward < 1 ? 4 * forward : 5.0));
}

TEST_CASE("serialize_times: a checkpoint without a newer phase is restored with 0 for it") {
  events::Timing saved;
  saved.wall_s = 9;
  saved.forward_s = 4;
  StateWriter writer;
  train::serialize_times(saved, writer);
  Json values = writer.json();
  REQUIRE(values.erase("eval_s") == 1);
  StateReader reader(values);
  events::Timing restored;
  train::serialize_times(restored, reader);
  reader.finish();
  CHECK(restored.wall_s == 9);
  CHECK(restored.forward_s == 4);
  CHECK(restored.eval_s == 0);
}
