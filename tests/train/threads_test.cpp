#include "train/threads.hpp"

#include "support/catch.hpp"

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

TEST_CASE("more threads are taken only where they are clearly faster") {
  Bench bench;
  CHECK(bench.probe(0.001, 0.0005).threads == 4);
  CHECK(bench.threads == 4);
  CHECK(bench.probe(0.001, 0.00095).threads == 1);
  CHECK(bench.threads == 1);
  CHECK(bench.probe(0.001, 0.0017).why == "probe: 4 threads take 1.70x of 1");
}

TEST_CASE("the probe is short whatever a step takes") {
  Bench quick;
  quick.probe(1e-6, 1e-6);
  CHECK(quick.clock.now() < 0.5);
  Bench slow;
  slow.probe(3.0, 1.0);
  CHECK(slow.steps <= 6);
  CHECK(slow.threads == 4);
}
