#include "train/measure/auto_settings.hpp"

#include "support/catch.hpp"
#include "support/manual_clock.hpp"

using namespace trainctl;

namespace {

struct Bench {
  ManualClock clock;
  int threads = 1;
  int steps = 0;

  train::ThreadChoice probe(double one_s, double many_s) {
    return train::probe_threads({4,
                                 [=, this] {
                                   clock.advance(threads == 1 ? one_s : many_s);
                                   ++steps;
                                 },
                                 [this](int n) { threads = n; }},
                                clock);
  }
};

}  // namespace

TEST_CASE("num_threads=auto: several threads are used only if they are clearly faster") {
  Bench bench;
  CHECK(bench.probe(0.001, 0.0005).threads == 4);
  CHECK(bench.threads == 4);
  CHECK(bench.probe(0.001, 0.00095).threads == 1);
  CHECK(bench.threads == 1);
  CHECK(bench.probe(0.001, 0.0005).step_s == Approx(0.0005));
  CHECK(bench.probe(0.001, 0.00095).step_s == Approx(0.001));
  CHECK(bench.probe(0.001, 0.0017).why ==
        "probe: a step takes 1.70x as long with 4 threads as with 1");
}

TEST_CASE("num_threads=auto: the probe is short for any step time") {
  Bench quick;
  quick.probe(1e-6, 1e-6);
  CHECK(quick.clock.now() < 0.5);
  Bench slow;
  slow.probe(3.0, 1.0);
  CHECK(slow.steps <= 6);
  CHECK(slow.threads == 4);
}

TEST_CASE("time_steps: on a CPU, times steps after two warm-up steps, within half a second") {
  ManualClock clock;
  int steps = 0;
  const auto step = [&](double first, double others) {
    return [&clock, &steps, first, others] { clock.advance(steps++ < 2 ? first : others); };
  };
  CHECK(train::time_steps(step(0.1, 0.01), at::kCPU, clock) == Approx(0.01));
  CHECK(steps < 60);
  steps = 0;
  CHECK(train::time_steps(step(0.3, 0.2), at::kCPU, clock) == Approx(0.3));
  CHECK(steps == 2);
  steps = 0;
  CHECK(train::time_steps(step(9, 9), at::kCPU, clock) == Approx(9));
  CHECK(steps == 1);
}

TEST_CASE("time_steps: on a GPU, steps that load libraries and kernels are not timed") {
  ManualClock clock;
  int steps = 0;
  const auto step = [&](double others) {
    return [&clock, &steps, others] { clock.advance(steps++ < 3 ? 6.0 - steps : others); };
  };
  CHECK(train::time_steps(step(0.002), at::kCUDA, clock) == Approx(0.002));
  CHECK(steps == 3 + 50);
  steps = 0;
  CHECK(train::time_steps(step(0.7), at::kCUDA, clock) == Approx(0.7));
  CHECK(steps == 4);
}
