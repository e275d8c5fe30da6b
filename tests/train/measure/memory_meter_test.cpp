#include "support/catch.hpp"
#include "train/measure/resource_counters.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

using namespace trainctl;

namespace {

constexpr std::int64_t kFloats = 1 << 18;
constexpr std::int64_t kMiB = 1 << 20;  // size of the floats

at::Tensor mebibyte() { return at::empty({kFloats}); }

}  // namespace

TEST_CASE("MemoryMeter: counts allocations and frees since its construction") {
  train::MemoryMeter meter(at::kCPU);
  CHECK(meter.live() == 0);
  const at::Tensor kept = mebibyte();
  {
    const at::Tensor two = at::empty({2, kFloats});
    CHECK(meter.live() == 3 * kMiB);
  }
  CHECK(meter.live() == kMiB);
  CHECK(meter.peak() == 3 * kMiB);
  meter.restart_peak();
  CHECK(meter.peak() == kMiB);
  CHECK(meter.reserved() == 0);
}

TEST_CASE("MemoryMeter: freeing memory allocated earlier is not counted") {
  at::Tensor before = mebibyte();
  const train::MemoryMeter meter(at::kCPU);
  before.reset();
  CHECK(meter.live() == 0);
}

TEST_CASE("MemoryMeter: measures a backward pass without earlier allocations") {
  {
    const train::MemoryMeter meter(at::kCPU);
    const at::Tensor x = at::ones({kFloats}).requires_grad_();
    {
      const at::Tensor loss = x.exp().sum();  // keeps the exponentials
      const std::int64_t live = meter.live();
      CHECK(live >= 2 * kMiB);
      CHECK(live < 2 * kMiB + 1024);
      loss.backward();
      CHECK(meter.peak() >= 3 * kMiB);
    }
    CHECK(meter.live() == 2 * kMiB);  // x and its gradient
  }
  const at::Tensor unseen = mebibyte();
  const train::MemoryMeter next(at::kCPU);
  CHECK(next.live() == 0);
}

TEST_CASE("MemoryMeter: memory of other devices is not counted") {
  const train::MemoryMeter gpu(at::Device(at::kCUDA, 0));
  const at::Tensor here = mebibyte();
  CHECK(gpu.live() == 0);
  CHECK(gpu.peak() == 0);
}
