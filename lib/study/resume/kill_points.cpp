#include "study/resume/kill_points.hpp"

#include "base/error.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::study {
namespace {

constexpr std::uint16_t kOperation = 0x4b11;  // of the draws, apart from those of a run

}  // namespace

std::vector<std::int64_t> draw_kill_points(std::uint64_t seed, int kills, StepRange range) {
  ENSURE(config, std::cmp_less_equal(kills, range.last - range.first + 1),
         "--kills is {}, and the run has {} steps at which it can be killed: train longer, or kill "
         "less",
         kills, std::max<std::int64_t>(range.last - range.first + 1, 0));
  CounterRng rng(seed, 0, 0, kOperation);
  const auto steps = static_cast<std::uint64_t>(range.last - range.first + 1);
  std::vector<std::int64_t> points;
  while (std::cmp_less(points.size(), kills)) {
    const std::int64_t step = range.first + static_cast<std::int64_t>(rng.below(steps));
    if (std::ranges::find(points, step) == points.end()) points.push_back(step);
  }
  return points;
}

std::int64_t checkpoint_interval(std::int64_t steps, std::int64_t steps_per_epoch) {
  constexpr std::int64_t kCheckpoints = 11;
  const std::int64_t every = std::max<std::int64_t>(steps / kCheckpoints, 1);
  const bool at_ends = every > 1 && steps_per_epoch > 0 && every % steps_per_epoch == 0;
  return at_ends ? every - 1 : every;
}

}  // namespace trainctl::study
