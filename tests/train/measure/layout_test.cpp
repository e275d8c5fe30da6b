#include "support/catch.hpp"
#include "support/manual_clock.hpp"
#include "train/measure/auto_settings.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace trainctl;
using spec::Precision;
using train::choose_layout;

namespace {

/// Returns the choice of a probe in which a step takes 20 ms with channels first, and with channels
/// last the milliseconds in `last_ms`, one per round; the first one is the warm-up.
train::LayoutChoice probed(const std::vector<double>& last_ms) {
  ManualClock clock;
  std::size_t steps = 0;
  return train::probe_layout(
      {[&] { clock.advance(0.020); },
       [&] { clock.advance(last_ms.at(std::min(steps++, last_ms.size() - 1)) / 1000); }},
      clock);
}

}  // namespace

TEST_CASE(
    "channels_last=auto: on if at least two thirds of the operations are image convolutions") {
  CHECK(choose_layout({300, 200}).channels_last);
  CHECK_FALSE(choose_layout({300, 199}).channels_last);
  CHECK(choose_layout({100, 97}).why == "97 % of the operations are convolutions of images");
  CHECK(choose_layout({100, 5}).why ==
        "5 % of the operations are convolutions of images; two thirds are needed");
}

TEST_CASE("channels_last=auto: off for a model without convolutions or without operations") {
  CHECK_FALSE(choose_layout({100, 0}).channels_last);
  CHECK_THAT(choose_layout({0, 0}).why, Contains("no convolutions"));
}

TEST_CASE("channels_last=auto: enabled on a GPU only in 16-bit precision") {
  CHECK_FALSE(train::gains_by_channels_last(Precision::full));
  CHECK(train::gains_by_channels_last(Precision::fp16_mixed));
  CHECK(train::gains_by_channels_last(Precision::bf16_mixed));
}

TEST_CASE("channels_last=auto: a CPU probe requires a speedup of 1.15 and no slower round") {
  CHECK(probed({40, 15}).channels_last);
  CHECK(probed({40, 15}).why == "probe: 1.33x as fast with channels_last");
  CHECK_FALSE(probed({40, 18}).channels_last);
  CHECK(probed({40, 18}).why == "probe: 1.11x as fast with channels_last");
  CHECK_FALSE(probed({40, 25}).channels_last);
  CHECK(probed({40, 15, 19, 15, 15, 15}).channels_last);
  CHECK_FALSE(probed({40, 15, 21, 15, 15, 15}).channels_last);
}

TEST_CASE("channels_last=auto: a probe with long steps ends after the first round") {
  ManualClock clock;
  int steps = 0;
  const auto long_step = [&] {
    clock.advance(3);
    ++steps;
  };
  CHECK_FALSE(train::probe_layout({long_step, long_step}, clock).channels_last);
  CHECK(steps == 5);
}
