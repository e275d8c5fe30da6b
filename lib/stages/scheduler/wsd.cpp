#include "spec/scheduler/wsd.hpp"

#include "stages/builtin.hpp"
#include "stages/scheduler/warmed_up.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainctl::stages {
namespace {

using spec::scheduler::DecayShape;

/// What is left of the rate when `done` of the decay is over.
double left(DecayShape shape, double done) {
  if (shape == DecayShape::linear) return 1 - done;
  if (shape == DecayShape::cosine) return (1 + std::cos(std::numbers::pi * done)) / 2;
  return 1 - std::sqrt(done);
}

class Wsd final : public WarmedUp {
 public:
  Wsd(const spec::scheduler::Wsd& options, const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        options_(options),
        end_(intervals_after_warmup()),
        decay_(std::max<std::int64_t>(
            1, std::llround(options.decay_fraction * static_cast<double>(end_)))) {}

 private:
  [[nodiscard]] double curve(std::int64_t t) const override {
    const std::int64_t into = std::clamp<std::int64_t>(t - (end_ - decay_), 0, decay_);
    const double done = static_cast<double>(into) / static_cast<double>(decay_);
    const double factor =
        options_.end_factor + (1 - options_.end_factor) * left(options_.decay, done);
    return initial_lr() * factor;
  }

  spec::scheduler::Wsd options_;
  std::int64_t end_;    // of the run, in intervals after warm-up
  std::int64_t decay_;  // intervals
};

}  // namespace

void register_scheduler_wsd(stage::Catalogue& catalogue) {
  catalogue.schedulers.add_class<spec::scheduler::Wsd, Wsd>("wsd");
}

}  // namespace trainctl::stages
