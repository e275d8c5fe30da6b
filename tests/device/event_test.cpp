#include "device/event.hpp"

#include "base/machine/host_waits.hpp"
#include "device/fake_events.hpp"
#include "support/catch.hpp"

#include <torch/types.h>

#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

using namespace trainctl;

namespace {

using Waits = std::map<std::string, std::int64_t>;

/// A step of two parts, the second of which takes two seconds.
void launch_step(device::EventTimer& timer, FakeDevice& gpu) {
  timer.mark(0);
  timer.mark(1);
  ++gpu.launched;
  timer.mark(2);
}

}  // namespace

TEST_CASE("EventTimer: times are returned when the device has finished a step, without waiting") {
  FakeDevice gpu;
  const auto timer = device::make_event_timer(gpu.events(), 3);
  const auto before = host_waits();
  const int lag = GENERATE(0, 1, 2, 7);  // steps that the host runs ahead
  std::vector<double> sums(3);
  const auto add = [&](const std::vector<double>& seconds) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += seconds[i];
  };
  constexpr int kSteps = 20;
  for (int step = 1; step <= kSteps; ++step) {
    launch_step(*timer, gpu);
    gpu.finished = gpu.launched - 4 * lag;
    add(timer->end_step());
    CHECK(sums[1] == std::max(step - lag, 0));
  }
  CHECK(host_waits_since(before).empty());
  CHECK(gpu.waits == 0);
  add(timer->finish());
  CHECK(sums == std::vector<double>{0, kSteps, 2 * kSteps});
  CHECK(gpu.waits == lag);
  if (lag > 0)
    CHECK(host_waits_since(before) == Waits{{"times of the last steps of an epoch", lag}});
  CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == 3 * kSteps);
  CHECK(timer->finish() == std::vector<double>(3));
}

TEST_CASE("EventTimer: a step in the middle of its parts is ended by finish()") {
  FakeDevice gpu;
  const auto timer = device::make_event_timer(gpu.events(), 2);
  timer->mark(0);
  timer->mark(1);
  gpu.finish_all();
  CHECK(timer->finish() == std::vector<double>{0, 1});
  timer->mark(0);  // the time between two steps belongs to none
  CHECK(timer->end_step() == std::vector<double>{0, 0});
}

TEST_CASE("PendingCopies: the host waits only at the limit of copies that are not done") {
  FakeDevice gpu;
  const int most = GENERATE(0, 1, 4);
  device::PendingCopies copies(gpu.events(), most);
  const auto before = host_waits();
  for (int batch = 0; batch < 20; ++batch) {
    copies.current().record();
    copies.advance();
    CHECK(gpu.launched - gpu.finished <= most);
  }
  CHECK(gpu.waits == 20 - most);
  CHECK(host_waits_since(before) == Waits{{std::string(device::PendingCopies::kPlace), 20 - most}});
  CHECK(copies.drain_in_destructor());
  CHECK(gpu.finished.load() == 20);
  for (int batch = 0; batch < 20; ++batch) {
    copies.current().record();
    gpu.finish_all();
    copies.advance();
  }
  CHECK(host_waits_since(before).at(std::string(device::PendingCopies::kPlace)) == 20 - most);
}

TEST_CASE("PendingCopies: drain() returns when all copies are done") {
  FakeDevice gpu;
  const int launched = GENERATE(0, 1, 3, 7);
  device::PendingCopies copies(gpu.events(), 4);
  for (int batch = 0; batch < launched; ++batch) {
    copies.current().record();
    copies.advance();
  }
  const auto before = host_waits();
  SECTION("not done") {
    const int finished = gpu.finished;
    copies.drain();
    CHECK(gpu.finished.load() == launched);
    const auto waits = host_waits_since(before);
    REQUIRE(waits.size() == (finished < launched ? 1 : 0));
    if (!waits.empty()) CHECK(waits.begin()->first == "copies of the last batches of an epoch");
  }
  SECTION("done") {
    gpu.finish_all();
    copies.drain();
    CHECK(host_waits_since(before).empty());
  }
}

TEST_CASE("LateValues: values are read when they are ready, or with a counted wait") {
  FakeDevice gpu;
  device::LateValues late(gpu.event());
  CHECK_FALSE(late.is_immediate());
  const at::Tensor values = torch::tensor({1.5, -2.0}, torch::kDouble);
  late.start(values);
  values.fill_(7);  // later work
  CHECK_FALSE(late.is_ready());
  const auto before = host_waits();
  SECTION("ready") {
    gpu.finish_all();
    CHECK(late.is_ready());
    CHECK(late.read("a test")[1] == -2);
    CHECK(host_waits_since(before).empty());
  }
  SECTION("not ready") {
    CHECK(late.read("a test")[0] == 1.5);
    CHECK(host_waits_since(before) == Waits{{"a test", 1}});
  }
  late.start(values);
  gpu.finish_all();
  CHECK(late.read("a test")[0] == 7);
  device::LateValues immediate(nullptr);
  CHECK(immediate.is_immediate());
  immediate.start(values);
  CHECK((immediate.is_ready() && immediate.read("a test")[1] == 7));
}

TEST_CASE("wait_in_destructor: a failing run does not wait for the device") {
  FakeDevice gpu;
  const auto event = gpu.event();
  event->record();
  struct AtEnd {
    device::Event& event;
    bool& settled;
    ~AtEnd() { settled = device::wait_in_destructor(event); }
  };
  bool settled = true;
  try {
    const AtEnd at_end{*event, settled};
    throw std::runtime_error("a rank is lost");
  } catch (const std::runtime_error&) {
    CHECK_FALSE(settled);
    CHECK(gpu.waits == 0);
  }
  CHECK(device::wait_in_destructor(*event));
  CHECK(gpu.waits == 1);
}
