#include "spec/experiment/experiment.hpp"
#include "spec/options/scheduler.hpp"
#include "stages/builtin.hpp"
#include "stages/scheduler/warmup.hpp"

#include <algorithm>
#include <limits>

namespace trainctl::stages {
namespace {

using spec::Mode;
using spec::scheduler::ThresholdMode;

/// Follows torch.optim.lr_scheduler.ReduceLROnPlateau. Ignores epochs that begin in the warm-up.
class ReduceLrOnPlateau final : public WarmedUp {
 public:
  ReduceLrOnPlateau(const spec::scheduler::ReduceLrOnPlateau& options,
                    const stage::SchedulerContext& context)
      : WarmedUp(options, context),
        options_(options),
        mode_(spec::resolve_mode(options.mode, options.monitor)),
        rate_(context.initial_lr),
        best_(mode_ == Mode::min ? std::numeric_limits<double>::infinity()
                                 : -std::numeric_limits<double>::infinity()) {}

  void observe(std::int64_t epoch, double monitored) override {
    if (is_warming_up(epoch)) return;
    if (improves(monitored)) {
      best_ = monitored;
      bad_epochs_ = 0;
    } else {
      ++bad_epochs_;
    }
    if (cooldown_left_ > 0) {
      --cooldown_left_;
      bad_epochs_ = 0;
    }
    if (bad_epochs_ > options_.patience) reduce();
  }

  [[nodiscard]] std::string monitor() const override { return options_.monitor; }
  void serialize(StateArchive& archive) override {
    archive.value("lr", &rate_);
    archive.value("best", &best_);
    archive.value("bad_epochs", &bad_epochs_);
    archive.value("cooldown_left", &cooldown_left_);
  }

 private:
  [[nodiscard]] double curve(std::int64_t) const override { return rate_; }

  /// False for NaN.
  [[nodiscard]] bool improves(double value) const {
    const double margin = options_.threshold_mode == ThresholdMode::abs ? options_.threshold : 0;
    const double factor = options_.threshold_mode == ThresholdMode::rel ? options_.threshold : 0;
    if (mode_ == Mode::min) return value < best_ * (1 - factor) - margin;
    return value > best_ * (1 + factor) + margin;
  }

  void reduce() {
    const double lower = std::max(rate_ * options_.factor, options_.min_lr);
    if (rate_ - lower > options_.eps) rate_ = lower;
    cooldown_left_ = options_.cooldown;
    bad_epochs_ = 0;
  }

  spec::scheduler::ReduceLrOnPlateau options_;
  Mode mode_;
  double rate_;
  double best_;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace

void register_scheduler_reduce_lr_on_plateau(stage::Catalog& catalog) {
  catalog.schedulers.add_class<spec::scheduler::ReduceLrOnPlateau, ReduceLrOnPlateau>(
      "reduce_lr_on_plateau");
}

}  // namespace trainctl::stages
