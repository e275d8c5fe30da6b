#include "train/measure/usage_meter.hpp"

#include "support/catch.hpp"

#include <memory>

using namespace trainctl;
using train::UsageMeter;

namespace {

/// A GPU whose counters the test sets.
struct Board {
  GpuCounters counters{.joules = 1000, .pcie_bytes = 0};
  GpuMoment moment{.busy_percent = 50};
  int asked = 0;
};

class InventedGpu final : public GpuMeter {
 public:
  explicit InventedGpu(Board& board) : board_(board) {}
  [[nodiscard]] GpuCounters counters() const override { return board_.counters; }
  [[nodiscard]] GpuMoment moment() const override {
    ++board_.asked;
    return board_.moment;
  }
  [[nodiscard]] std::optional<double> power_limit() const override { return 700; }

 private:
  Board& board_;
};

}  // namespace

TEST_CASE("nothing is reported before the start or for an epoch that is too short") {
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

TEST_CASE("usage of a CPU has shares of at most 1 and no GPU values") {
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

TEST_CASE("a GPU is asked once a second at most, and its counters once an epoch") {
  Board board;
  UsageMeter meter(4, std::make_unique<InventedGpu>(board));
  meter.begin();
  for (int i = 0; i < 35; ++i) meter.step(100 + 0.1 * i);
  CHECK(board.asked == 4);
  board.counters = {.joules = 3000, .pcie_bytes = 8e6};
  const auto usage = meter.take(4);
  REQUIRE(usage);
  CHECK(*usage->gpu_power_w == Approx(500));
  CHECK(*usage->pcie_mb_s == Approx(2));
  CHECK(usage->gpu_power_limit_w == 700);
  CHECK(usage->gpu_throttle.empty());
  CHECK(meter.take_gpu_util() == 50);
  CHECK_FALSE(meter.take_gpu_util());
}

TEST_CASE("thermally throttled clocks are reported, a counter that wraps is not") {
  Board board;
  UsageMeter meter(4, std::make_unique<InventedGpu>(board));
  meter.begin();
  board.moment.heat = true;
  for (int i = 0; i < 3; ++i) meter.step(i * 2);
  board.counters = {.joules = 10, .pcie_bytes = std::nullopt};
  const auto usage = meter.take(6);
  REQUIRE(usage);
  CHECK(usage->gpu_throttle == "heat");
  CHECK_FALSE(usage->gpu_power_w);
  CHECK_FALSE(usage->pcie_mb_s);
}
