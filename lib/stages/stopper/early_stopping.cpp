#include "base/numbers.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/options/stopper.hpp"
#include "stages/builtin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace trainctl::stages {
namespace {

using spec::Mode;

/// Follows Lightning's EarlyStopping, except that a non-finite value only counts as no improvement
/// (the trainer fails a run whose loss diverges).
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
  void serialize(StateArchive& archive) override {
    archive.value("best", &best_);
    archive.value("best_epoch", &best_epoch_);
    archive.value("waited", &waited_);
  }

 private:
  [[nodiscard]] bool better(double value, double than, double by) const {
    return mode_ == Mode::min ? value < than - by : value > than + by;
  }

  /// Returns an empty string if training continues.
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
                       plural(waited_), best);
  }

  spec::stopper::Patience options_;
  Mode mode_;
  double best_;
  std::int64_t best_epoch_ = -1;
  std::int64_t waited_ = 0;
};

/// Tracks one series of losses: the best value, and how many consecutive values were too high.
class Series {
 public:
  explicit Series(const spec::stopper::Divergence& options) : options_(options) {}

  stage::StopDecision observe(const std::string& at, double raw) {
    stage::StopDecision decision;
    const double value = smoothed(raw);
    const bool finite = std::isfinite(value);
    if (++seen_ <= options_.skip_first && finite) return decision;
    if (finite && (!best_ || value <= *best_ + margin())) {
      high_ = 0;
      decision.improved = !best_ || value < *best_;
      if (decision.improved) {
        best_ = value;
        best_at_ = at;
      }
      return decision;
    }
    if (++high_ < options_.patience) return decision;
    decision.stop = decision.diverged = true;
    decision.reason = reason(value);
    return decision;
  }

  void serialize(StateArchive& archive) {
    archive.value("best", &best_);
    archive.value("best_at", &best_at_);
    archive.value("seen", &seen_);
    archive.value("high", &high_);
    archive.value("mean", &mean_);
    archive.value("weight", &weight_);
  }

 private:
  double smoothed(double value) {
    const double decay = options_.smoothing;
    if (decay == 0 || !std::isfinite(value)) return value;
    mean_ = decay * mean_ + (1 - decay) * value;
    weight_ *= decay;
    return mean_ / (1 - weight_);
  }

  /// Returns (factor - 1) times the absolute best, because no multiple of a negative loss is above
  /// it.
  [[nodiscard]] double margin() const {
    return std::max((options_.factor - 1) * std::abs(*best_), options_.min_delta);
  }

  [[nodiscard]] std::string reason(double value) const {
    const std::string times = high_ == 1 ? "" : fmt::format(" for {} values in a row", high_);
    const std::string what = (options_.smoothing > 0 ? "smoothed " : "") + options_.monitor;
    if (!best_) return fmt::format("{} is {:.6g}{}, and was never finite", what, value, times);
    return fmt::format("{} is {:.6g}, above the limit of {:.6g}{} (best {:.6g} {})", what, value,
                       *best_ + margin(), times, *best_, best_at_);
  }

  const spec::stopper::Divergence& options_;
  std::optional<double> best_;
  std::string best_at_;
  std::int64_t seen_ = 0;
  std::int64_t high_ = 0;
  double mean_ = 0;
  double weight_ = 1;  // weight that the moving mean still lacks
};

/// Means of a few steps vary more than means of epochs, so each kind is compared with its own best.
class Divergence final : public stage::Stopper {
 public:
  explicit Divergence(spec::stopper::Divergence options)
      : options_(std::move(options)), epochs_(options_), log_points_(options_) {}

  stage::StopDecision observe(std::int64_t epoch, double monitored) override {
    return epochs_.observe(fmt::format("in epoch {}", epoch + 1), monitored);
  }
  stage::StopDecision observe_step(std::int64_t global_step, double loss) override {
    if (options_.monitor != "train/loss") return {};
    return log_points_.observe(fmt::format("at step {}", global_step), loss);
  }
  [[nodiscard]] std::string monitor() const override { return options_.monitor; }
  [[nodiscard]] bool restore_best() const override { return false; }
  void serialize(StateArchive& archive) override {
    archive.group("epochs", [&] { epochs_.serialize(archive); });
    archive.group("log_points", [&] { log_points_.serialize(archive); });
  }

 private:
  spec::stopper::Divergence options_;
  Series epochs_;
  Series log_points_;
};

}  // namespace

void register_stopper_early_stopping(stage::Catalog& catalog) {
  catalog.stoppers.add_class<spec::stopper::Patience, Patience>("patience");
  catalog.stoppers.add_class<spec::stopper::Divergence, Divergence>("divergence");
}

}  // namespace trainctl::stages
