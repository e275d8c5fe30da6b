#include "base/numbers.hpp"
#include "spec/checks/checks.hpp"
#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::spec {
namespace {

using scheduler::counted;
using scheduler::Interval;

void check_milestones(Checker& checker, const std::vector<std::int64_t>& milestones,
                      Interval interval, std::optional<std::int64_t> run) {
  for (std::size_t i = 0; i < milestones.size(); ++i) {
    const std::string path = fmt::format("scheduler.milestones.{}", i);
    if (i > 0 && milestones[i] <= milestones[i - 1]) {
      checker.error(path, fmt::format("milestones must be in ascending order, but {} follows {}",
                                      milestones[i], milestones[i - 1]));
    } else if (run && milestones[i] >= *run) {
      checker.warning(path, fmt::format("the milestone at {} is never reached: the run has {}",
                                        milestones[i], counted(*run, interval)));
    }
  }
}

void check_drops(Checker& checker, const config::Stage& stage, std::optional<std::int64_t> run) {
  const auto* step = stage.get_if<scheduler::StepLr>();
  const auto* plateau = stage.get_if<scheduler::ReduceLrOnPlateau>();
  if (const auto* options = stage.get_if<scheduler::MultiStepLr>())
    check_milestones(checker, options->milestones, options->interval, run);
  if (step != nullptr && run && step->step_size >= *run) {
    checker.warning("scheduler.step_size",
                    fmt::format("the learning rate never drops: step_size is {}, the run has {}",
                                step->step_size, counted(*run, step->interval)));
  }
  if (plateau != nullptr && plateau->interval == Interval::step) {
    checker.error("scheduler.interval",
                  "reduce_lr_on_plateau counts epochs: it monitors one value per epoch",
                  "write 'interval: epoch'");
  }
}

/// A length option of a stage, and whether it is `auto`.
struct OpenLength {
  const char* key;
  bool open;
};

template <class Options>
OpenLength open_length(const config::Stage& stage, const char* key,
                       config::Auto<std::int64_t> Options::*member) {
  const auto* options = stage.get_if<Options>();
  return {key, options != nullptr && (options->*member).is_auto()};
}

void check_end(Checker& checker, const config::Stage& stage) {
  const Trainer& trainer = checker.experiment().trainer;
  const bool ends = trainer.epoch_limit() || trainer.max_steps;
  if (ends || !checker.is_valid("trainer")) return;
  if (stage.options_type == typeid(scheduler::Wsd)) {
    checker.error(
        "scheduler",
        "wsd needs the length of the run, which is unknown if only trainer.max_time is set",
        "set 'trainer.max_epochs' or 'trainer.max_steps'");
  }
  for (const OpenLength& length :
       {open_length(stage, "t_max", &scheduler::CosineAnnealingLr::t_max),
        open_length(stage, "total_iters", &scheduler::LinearLr::total_iters),
        open_length(stage, "total_iters", &scheduler::PolynomialLr::total_iters),
        open_length(stage, "total_steps", &scheduler::OneCycleLr::total_steps)}) {
    if (!length.open) continue;
    checker.error(fmt::format("scheduler.{}", length.key),
                  fmt::format("'{}: auto' needs the length of the run, which is unknown if only "
                              "trainer.max_time is set",
                              length.key),
                  fmt::format("set '{}', 'trainer.max_epochs' or 'trainer.max_steps'", length.key));
  }
}

std::optional<std::int64_t> intervals(const Checker& checker, const RunLength& length,
                                      Interval interval) {
  if (!checker.is_valid({"trainer.max_epochs", "trainer.max_steps"})) return std::nullopt;
  return interval == Interval::epoch ? length.known_epochs() : length.steps;
}

void check_momentum(Checker& checker, const config::Stage& stage, const std::string& path) {
  const auto* cycle = stage.get_if<scheduler::OneCycleLr>();
  const bool cycles = cycle != nullptr && cycle->cycle_momentum;
  if (!cycles || !checker.is_valid(path) || !checker.is_valid("optimizer")) return;
  const config::Stage& optimizer = checker.experiment().optimizer;
  if (cycle->base_momentum > cycle->max_momentum) {
    checker.error(path + ".base_momentum",
                  fmt::format("base_momentum must be at most max_momentum ({}), got {}",
                              cycle->max_momentum, cycle->base_momentum),
                  "write the lower value as base_momentum");
  }
  // Optimizers of plug-ins are checked when they are built.
  if (optimizer.options_type != typeid(optimizer::Adagrad)) return;
  checker.error(path + ".cycle_momentum",
                fmt::format("the optimizer '{}' has no momentum to cycle", optimizer.type),
                "write 'cycle_momentum: false', or choose another optimizer");
}

void check_sequence(Checker& checker, const scheduler::SequentialLr& options,
                    const RunLength& length) {
  const std::size_t wanted = options.schedulers.size() - 1;
  if (options.milestones.size() != wanted) {
    checker.error("scheduler.milestones",
                  fmt::format("{} schedulers need {} milestone{}, got {}", wanted + 1, wanted,
                              plural(wanted), options.milestones.size()),
                  "write the intervals at which the second and later schedulers start");
  }
  check_milestones(checker, options.milestones, options.interval,
                   intervals(checker, length, options.interval));
  for (std::size_t i = 0; i < options.schedulers.size(); ++i) {
    check_momentum(checker, options.schedulers[i], fmt::format("scheduler.schedulers.{}", i));
    if (options.schedulers[i].options_type != typeid(scheduler::ReduceLrOnPlateau)) continue;
    checker.error(fmt::format("scheduler.schedulers.{}", i),
                  "reduce_lr_on_plateau monitors a value, so it cannot be part of a sequence",
                  "choose another scheduler");
  }
}

bool is_whole(double value) {
  constexpr double kRounding = 1e-9;  // rounding error of a fraction times a number of epochs
  return std::abs(value - std::round(value)) < kRounding * std::max(1.0, value);
}

void check_warmup(Checker& checker, const scheduler::Warmup& options, const RunLength& length) {
  using Unit = scheduler::WarmupLength::Unit;
  const Trainer& trainer = checker.experiment().trainer;
  const scheduler::WarmupLength& warmup = options.warmup;
  const std::optional<std::int64_t> run = intervals(checker, length, options.interval);
  std::optional<double> epochs;
  if (warmup.unit == Unit::epochs) epochs = warmup.value;
  if (warmup.unit == Unit::run && run) epochs = warmup.value * static_cast<double>(*run);
  if (options.interval == Interval::epoch && epochs && !is_whole(*epochs))
    return checker.error(
        "scheduler.warmup",
        fmt::format("a warm-up of {:.4g} epochs ends within an epoch, but the scheduler "
                    "counts epochs",
                    *epochs),
        "write 'interval: step', or a whole number of epochs");
  const bool ends = trainer.epoch_limit() || trainer.max_steps;
  if (warmup.unit == Unit::run && !ends && checker.is_valid("trainer"))
    return checker.error("scheduler.warmup",
                         "'warmup' is a fraction of the run, whose length is unknown if only "
                         "trainer.max_time is set",
                         "write a number of steps or epochs, or set 'trainer.max_epochs'");
  const auto rise =
      scheduler::intervals_of(warmup, {options.interval, length.steps_per_epoch, run});
  if (!run || !rise || *rise == 0 || *rise < *run) return;
  checker.error("scheduler.warmup",
                fmt::format("the warm-up of {} must be shorter than the run of {}",
                            counted(*rise, options.interval), counted(*run, options.interval)));
}

}  // namespace

void check_scheduler(Checker& checker, const RunLength& length) {
  const config::Stage& stage = checker.experiment().scheduler;
  if (!checker.is_valid("scheduler")) return;
  if (const auto* sequence = stage.get_if<scheduler::SequentialLr>())
    check_sequence(checker, *sequence, length);
  const scheduler::Warmup* options = scheduler::warmup_of(stage);
  if (options == nullptr) return;
  const std::optional<std::int64_t> run = intervals(checker, length, options->interval);
  check_warmup(checker, *options, length);
  check_drops(checker, stage, run);
  check_momentum(checker, stage, "scheduler");
  check_end(checker, stage);
}

}  // namespace trainctl::spec
