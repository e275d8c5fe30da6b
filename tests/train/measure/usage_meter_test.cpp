#include "train/measure/usage_meter.hpp"

#include "support/catch.hpp"

#include <memory>

using namespace trainctl;
using train::UsageMeter;

namespace {

/// A GPU whose counters the test sets.
struct FakeGpu {
  GpuCounters counters{.joules = 1000, .pcie_bytes = 0};
  GpuMoment moment{.busy_percent = 50};
  int reads = 0;
};

class FakeGpuMeter final : public GpuMeter {
 public:
  explicit FakeGpuMeter(FakeGpu& gpu) : gpu_(gpu) {}
  [[nodiscard]] GpuCounters counters() const override { return gpu_.counters; }
  [[nodiscard]] GpuMoment moment() const override {
    ++gpu_.reads;
    return gpu_.moment;
  }
  [[nodiscard]] std::optional<double> power_limit() const override { return 700; }

 private:
  FakeGpu& gpu_;
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
  meter.step(0);
  const auto usage = meter.take(1);
  REQUIRE(usage);
  for (const auto& share : {usage->cpu_stalled, usage->io_stalled, usage->memory_stalled,
                            usage->throttled, usage->memory_taken}) {
    if (share) CHECK((*share >= 0 && *share <= 1));
  }
  CHECK_FALSE(usage->gpu_power_w);
  CHECK_FALSE(meter.take_gpu_util());
}

TEST_CASE("UsageMeter: reads the GPU at most once a second and its counters once an epoch") {
  FakeGpu gpu;
  UsageMeter meter(4, std::make_unique<FakeGpuMeter>(gpu));
  meter.begin();
  for (int i = 0; i < 35; ++i) meter.step(100 + 0.1 * i);
  CHECK(gpu.reads == 4);
  gpu.counters = {.joules = 3000, .pcie_bytes = 8e6};
  const auto usage = meter.take(4);
  REQUIRE(usage);
  CHECK(*usage->gpu_power_w == Approx(500));
  CHECK(*usage->pcie_mb_s == Approx(2));
  CHECK(usage->gpu_power_limit_w == 700);
  CHECK(usage->gpu_throttle.empty());
  CHECK(meter.take_gpu_util() == 50);
  CHECK_FALSE(meter.take_gpu_util());
}

TEST_CASE("UsageMeter: thermal throttling is reported, and a counter that decreases is ignored") {
  FakeGpu gpu;
  UsageMeter meter(4, std::make_unique<FakeGpuMeter>(gpu));
  meter.begin();
  gpu.moment.heat = true;
  for (int i = 0; i < 3; ++i) meter.step(i * 2);
  gpu.counters = {.joules = 10, .pcie_bytes = std::nullopt};
  const auto usage = meter.take(6);
  REQUIRE(usage);
  CHECK(usage->gpu_throttle == "heat");
  CHECK_FALSE(usage->gpu_power_w);
  CHECK_FALSE(usage->pcie_mb_s);
}
