#include "spec/stopper/patience.hpp"

#include "spec/experiment/monitor.hpp"
#include "stages/builtin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace trainctl::stages {
namespace {

using spec::Mode;

/// The rules of Lightning's EarlyStopping, except that a value that is not finite is borne like any
/// without improvement (the trainer ends a run whose loss diverges).
class Patience final : public stage::Stopper {
 public:
  explicit Patience(const spec::stopper::Patience& options)
      : options_(options),
        mode_(spec::resolve_mode(options.mode, options.monitor)),
        best_(mode_ == Mode::min ? std::numeric_limits<double>::infinity()
                                 : -std::numeric_limits<double>::infinity()) {}

  stage::StopDecision observe(std::int64_t epoch, double monitored) override {
    stage::StopDecision decision;
    decision.improved = std::isfinite(monitored) && better(monitored, best_, options_.min_delta);
    if (decision.improved) {
      best_ = monitored;
      best_epoch_ = epoch;
      waited_ = 0;
    } else {
      ++waited_;
    }
    decision.reason = reason_to_stop(monitored);
    decision.stop = !decision.reason.empty();
    return decision;
  }

  [[nodiscard]] std::string monitor() const override { return options_.monitor; }
  [[nodiscard]] bool restore_best() const override { return options_.restore_best; }
  void memorise(Memo& memo) override {
    memo.value("best", &best_);
    memo.value("best_epoch", &best_epoch_);
    memo.value("waited", &waited_);
  }

 private:
  [[nodiscard]] bool better(double value, double than, double by) const {
    return mode_ == Mode::min ? value < than - by : value > than + by;
  }

  /// Empty where training goes on.
  [[nodiscard]] std::string reason_to_stop(double value) const {
    const auto& [goal, limit] =
        std::pair(options_.stopping_threshold, options_.divergence_threshold);
    if (goal && (value == *goal || better(value, *goal, 0))) {
      return fmt::format("{} reached {:.6g} (stopping_threshold {:.6g})", options_.monitor, value,
                         *goal);
    }
    if (limit && value != *limit && !better(value, *limit, 0)) {  // NaN is worse than any limit
      return fmt::format("{} is {:.6g}, worse than divergence_threshold {:.6g}", options_.monitor,
                         value, *limit);
    }
    if (waited_ < std::max<std::int64_t>(options_.patience, 1)) return {};
    const std::string best = best_epoch_ < 0
                                 ? "no finite value yet"
                                 : fmt::format("best {:.6g} in epoch {}", best_, best_epoch_ + 1);
    return fmt::format("{} has not improved for {} validation{} ({})", options_.monitor, waited_,
                       waited_ == 1 ? "" : "s", best);
  }

  spec::stopper::Patience options_;
  Mode mode_;
  double best_;
  std::int64_t best_epoch_ = -1;
  std::int64_t waited_ = 0;
};

}  // namespace

void register_stopper_patience(stage::Catalogue& catalogue) {
  catalogue.stoppers.add<spec::stopper::Patience>("patience", [](const auto& options, const auto&) {
    return std::make_unique<Patience>(options);
  });
}

}  // namespace trainctl::stages
