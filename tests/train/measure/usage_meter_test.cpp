#include "train/measure/usage_meter.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <latch>
#include <memory>
#include <thread>

using namespace trainctl;
using train::UsageMeter;

namespace {

/// A GPU whose values the test sets.
struct FakeGpu {
  GpuCounters counters{.joules = 1000, .pcie_bytes = 0};
  GpuMoment moment{.busy_percent = 50};
};

class FakeGpuMeter final : public GpuMeter {
 public:
  explicit FakeGpuMeter(const FakeGpu& gpu) : gpu_(gpu) {}
  [[nodiscard]] GpuCounters counters() const override { return gpu_.counters; }
  [[nodiscard]] GpuMoment moment() const override { return gpu_.moment; }
  [[nodiscard]] std::optional<double> power_limit() const override { return 700; }

 private:
  const FakeGpu& gpu_;
};

/// The readings of a FakeGpu, which the test makes instead of a thread.
struct Readings {
  FakeGpu gpu;
  train::GpuTotals totals;

  void read(double now) { train::read_gpu(FakeGpuMeter(gpu), now, totals); }
  UsageMeter meter() {
    return {4, [this] { return totals; }};
  }
};

/// A GPU whose driver does not answer until it is released, except for the first reading.
class SlowGpuMeter final : public GpuMeter {
 public:
  SlowGpuMeter(std::latch& called, std::latch& released, std::thread::id creator)
      : called_(called), released_(released), creator_(creator) {}
  [[nodiscard]] GpuCounters counters() const override { return {}; }
  [[nodiscard]] GpuMoment moment() const override {
    if (++calls_ == 1) return {.busy_percent = 10};
    if (calls_ == 2) called_.count_down();
    if (std::this_thread::get_id() == creator_) std::abort();
    released_.wait();
    return {.busy_percent = 70};
  }
  [[nodiscard]] std::optional<double> power_limit() const override { return std::nullopt; }

 private:
  std::latch& called_;
  std::latch& released_;
  std::thread::id creator_;
  mutable int calls_ = 0;
};

}  // namespace

TEST_CASE(
    "UsageMeter: reports nothing before its start, and joins a very short epoch to the next") {
  UsageMeter meter(2, nullptr);
  CHECK_FALSE(meter.take(5));
  UsageMeter begun(2, nullptr);
  begun.begin();
  CHECK_FALSE(begun.take(0.03));
  const auto both = begun.take(0.04);
  REQUIRE(both);
  CHECK(both->span_s == Approx(0.07));
  CHECK(both->cores == 2);
}

TEST_CASE("UsageMeter: on a CPU all shares are at most 1 and there are no GPU values") {
  UsageMeter meter(4, nullptr);
  meter.begin();
  const auto usage = meter.take(1);
  REQUIRE(usage);
  for (const auto& share : {usage->cpu_stalled, usage->io_stalled, usage->memory_stalled,
                            usage->throttled, usage->memory_taken}) {
    if (share) CHECK((*share >= 0 && *share <= 1));
  }
  CHECK_FALSE(usage->gpu_power_w);
  CHECK_FALSE(meter.take_gpu_util());
}

TEST_CASE("UsageMeter: rates of a GPU are those between two readings") {
  Readings gpu;
  gpu.read(100);
  UsageMeter meter = gpu.meter();
  meter.begin();
  for (int i = 1; i <= 4; ++i) {
    gpu.gpu.counters = {.joules = 1000 + 500 * i, .pcie_bytes = 2e6 * i};
    gpu.read(100 + i);
  }
  const auto usage = meter.take(4.7);  // the epoch ended 0.7 s after the last reading
  REQUIRE(usage);
  CHECK(*usage->gpu_power_w == Approx(500));
  CHECK(*usage->pcie_mb_s == Approx(2));
  CHECK(usage->gpu_power_limit_w == 700);
  CHECK(usage->gpu_throttle.empty());
  CHECK(meter.take_gpu_util() == 50);
  CHECK_FALSE(meter.take_gpu_util());
  const auto next = meter.take(0.1);  // no reading in this epoch
  REQUIRE(next);
  CHECK_FALSE(next->gpu_power_w);
  CHECK_FALSE(next->gpu_power_limit_w);
}

TEST_CASE("UsageMeter: thermal throttling is reported, and a counter that decreases is ignored") {
  Readings gpu;
  gpu.read(0);
  UsageMeter meter = gpu.meter();
  meter.begin();
  gpu.gpu.moment.heat = true;
  gpu.gpu.counters = {.joules = 10, .pcie_bytes = std::nullopt};
  for (int i = 1; i <= 3; ++i) gpu.read(i * 2);
  const auto usage = meter.take(6);
  REQUIRE(usage);
  CHECK(usage->gpu_throttle == "heat");
  CHECK_FALSE(usage->gpu_power_w);
  CHECK_FALSE(usage->pcie_mb_s);
}

TEST_CASE("GpuSampler: a driver that does not answer delays nobody, and is asked on a thread") {
  std::latch called(1);
  std::latch released(1);
  train::GpuSampler sampler(
      std::make_unique<SlowGpuMeter>(called, released, std::this_thread::get_id()), steady_clock());
  CHECK(sampler.totals().samples == 1);  // asks for a reading, which the driver does not answer
  called.wait();
  CHECK(sampler.totals().util_sum == 10);
  released.count_down();
  while (sampler.totals().samples < 3) std::this_thread::yield();
  const train::GpuTotals totals = sampler.totals();
  CHECK(totals.util_sum == Approx(10 + 70 * (totals.samples - 1)));
}
