#include "study/workers/devices.hpp"
#include "support/catch.hpp"
#include "support/manual_clock.hpp"

using namespace trainctl;
using study::FreeMemory;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct Waited {
  bool is_back = false;
  int probes = 0;
  double seconds = 0;
};

/// Waits with free memory `now` at first, and `before` from probe number `back` on.
Waited wait_for(const FreeMemory& before, const FreeMemory& now, int back, int stopped = 1000) {
  ManualClock clock;
  Waited waited;
  waited.is_back = study::wait_for_free_memory(
      before, {.probe = [&] { return ++waited.probes >= back ? before : now; },
               .is_stopped = [&] { return waited.probes >= stopped; },
               .pause = [&] { clock.advance(0.5); },
               .clock = clock});
  waited.seconds = clock.now();
  return waited;
}

}  // namespace

TEST_CASE("GPU memory: a restart waits until the memory of every GPU is free again") {
  const Waited waited = wait_for({80 * kGiB, 80 * kGiB}, {80 * kGiB, 40 * kGiB}, 5);
  CHECK(waited.is_back);
  CHECK(waited.probes == 5);
  CHECK(waited.seconds == 2);
}

TEST_CASE("GPU memory: a restart waits at most 50 s, and not after a signal") {
  const Waited waited = wait_for({80 * kGiB}, {40 * kGiB}, 10'000);
  CHECK_FALSE(waited.is_back);
  CHECK(waited.seconds == 50);
  const Waited stopped = wait_for({80 * kGiB}, {40 * kGiB}, 10'000, 3);
  CHECK_FALSE(stopped.is_back);
  CHECK(stopped.probes == 3);
}

TEST_CASE("GPU memory: a small difference and an unknown value count as free") {
  CHECK(wait_for({80 * kGiB}, {79 * kGiB}, 1000).seconds == 0);
  CHECK(wait_for({kGiB}, {kGiB - kGiB / 8}, 1000).seconds == 0);
  CHECK(wait_for({80 * kGiB}, {}, 1000).seconds == 0);
  CHECK(wait_for({0}, {0}, 1000).seconds == 0);
  CHECK(wait_for({}, {kGiB}, 1000).probes == 0);
}

TEST_CASE("GPU memory: a missing or different library reports nothing") {
  CHECK(study::free_device_memory("libno_such_library.so.1").empty());
  CHECK(study::free_device_memory("libm.so.6").empty());
}
