#include "base/numbers.hpp"
#include "spec/checks/checks.hpp"
#include "spec/options/base_of.hpp"
#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::spec {
namespace {

using scheduler::counted;
using scheduler::Interval;

/// A scheduler of the experiment, and the path of its options in the file.
struct Place {
  const config::Stage& stage;
  std::string path;
};

/// The length of the run in the unit of a scheduler; nullopt if unknown.
struct Run {
  Interval unit;
  std::optional<std::int64_t> intervals;

  [[nodiscard]] std::string text() const { return counted(*intervals, unit); }
};

void check_milestones(Checker& checker, const std::string& path,
                      const std::vector<std::int64_t>& milestones, const Run& run) {
  for (std::size_t i = 0; i < milestones.size(); ++i) {
    const std::string place = fmt::format("{}.milestones.{}", path, i);
    if (i > 0 && milestones[i] <= milestones[i - 1]) {
      checker.error(place, fmt::format("milestones must be in ascending order, but {} follows {}",
                                       milestones[i], milestones[i - 1]));
    } else if (run.intervals && milestones[i] >= *run.intervals) {
      checker.warning(place, fmt::format("the milestone at {} is never reached: the run has {}",
                                         milestones[i], run.text()));
    }
  }
}

void check_drops(Checker& checker, const Place& place, const Run& run) {
  const auto* step = place.stage.get_if<scheduler::StepLr>();
  const auto* plateau = place.stage.get_if<scheduler::ReduceLrOnPlateau>();
  if (const auto* options = place.stage.get_if<scheduler::MultiStepLr>())
    check_milestones(checker, place.path, options->milestones, run);
  if (step != nullptr && run.intervals && step->step_size >= *run.intervals) {
    checker.warning(place.path + ".step_size",
                    fmt::format("the learning rate never drops: step_size is {}, the run has {}",
                                step->step_size, run.text()));
  }
  if (plateau != nullptr && plateau->interval == Interval::step) {
    checker.error(place.path + ".interval",
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

void check_end(Checker& checker, const Place& place) {
  const auto& [stage, path] = place;
  const Trainer& trainer = checker.experiment().trainer;
  const bool ends = trainer.epoch_limit() || trainer.max_steps;
  if (ends || !checker.is_valid("trainer")) return;
  if (stage.options_type == typeid(scheduler::Wsd)) {
    checker.error(
        path, "wsd needs the length of the run, which is unknown if only trainer.max_time is set",
        "set 'trainer.max_epochs' or 'trainer.max_steps'");
  }
  for (const OpenLength& length :
       {open_length(stage, "t_max", &scheduler::CosineAnnealingLr::t_max),
        open_length(stage, "total_iters", &scheduler::LinearLr::total_iters),
        open_length(stage, "total_iters", &scheduler::PolynomialLr::total_iters),
        open_length(stage, "total_steps", &scheduler::OneCycleLr::total_steps)}) {
    if (!length.open) continue;
    checker.error(fmt::format("{}.{}", path, length.key),
                  fmt::format("'{}: auto' needs the length of the run, which is unknown if only "
                              "trainer.max_time is set",
                              length.key),
                  fmt::format("set '{}', 'trainer.max_epochs' or 'trainer.max_steps'", length.key));
  }
}

Run run_of(const Checker& checker, const RunLength& length, Interval unit) {
  if (!checker.is_valid({"trainer.max_epochs", "trainer.max_steps"})) return {unit, std::nullopt};
  return {unit, unit == Interval::epoch ? length.known_epochs() : length.steps};
}

/// Checks a scheduler that cycles the momentum of the experiment's optimizer, also in a sequence.
void check_momentum(Checker& checker, const config::Stage& stage, const std::string& path) {
  if (const auto* sequence = stage.get_if<scheduler::SequentialLr>()) {
    for (std::size_t i = 0; i < sequence->schedulers.size(); ++i)
      check_momentum(checker, sequence->schedulers[i], fmt::format("{}.schedulers.{}", path, i));
  }
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

void check_sequence(Checker& checker, const std::string& path,
                    const scheduler::SequentialLr& options, const RunLength& length) {
  const std::size_t wanted = options.schedulers.size() - 1;
  if (options.milestones.size() != wanted) {
    checker.error(path + ".milestones",
                  fmt::format("{} schedulers need {} milestone{}, got {}", wanted + 1, wanted,
                              plural(wanted), options.milestones.size()),
                  "write the intervals at which the second and later schedulers start");
  }
  check_milestones(checker, path, options.milestones, run_of(checker, length, options.interval));
  for (std::size_t i = 0; i < options.schedulers.size(); ++i) {
    const std::string place = fmt::format("{}.schedulers.{}", path, i);
    if (i == wanted) check_end(checker, {options.schedulers[i], place});
    if (options.schedulers[i].options_type != typeid(scheduler::ReduceLrOnPlateau)) continue;
    checker.error(place,
                  "reduce_lr_on_plateau monitors a value, so it cannot be part of a sequence",
                  "choose another scheduler");
  }
}

bool is_whole(double value) {
  constexpr double kRounding = 1e-9;  // rounding error of a fraction times a number of epochs
  return std::abs(value - std::round(value)) < kRounding * std::max(1.0, value);
}

void check_warmup(Checker& checker, const std::string& path, const scheduler::Warmup& options,
                  const RunLength& length) {
  using Unit = scheduler::WarmupLength::Unit;
  const Trainer& trainer = checker.experiment().trainer;
  const scheduler::WarmupLength& warmup = options.warmup;
  const Run run = run_of(checker, length, options.interval);
  std::optional<double> epochs;
  if (warmup.unit == Unit::epochs) epochs = warmup.value;
  if (warmup.unit == Unit::run && run.intervals)
    epochs = warmup.value * static_cast<double>(*run.intervals);
  if (options.interval == Interval::epoch && epochs && !is_whole(*epochs))
    return checker.error(
        path + ".warmup",
        fmt::format("a warm-up of {:.4g} epochs ends within an epoch, but the scheduler "
                    "counts epochs",
                    *epochs),
        "write 'interval: step', or a whole number of epochs");
  const bool ends = trainer.epoch_limit() || trainer.max_steps;
  if (warmup.unit == Unit::run && !ends && checker.is_valid("trainer"))
    return checker.error(path + ".warmup",
                         "'warmup' is a fraction of the run, whose length is unknown if only "
                         "trainer.max_time is set",
                         "write a number of steps or epochs, or set 'trainer.max_epochs'");
  const auto rise =
      scheduler::intervals_of(warmup, {options.interval, length.steps_per_epoch, run.intervals});
  if (!run.intervals || !rise || *rise == 0 || *rise < *run.intervals) return;
  checker.error(path + ".warmup",
                fmt::format("the warm-up of {} must be shorter than the run of {}",
                            counted(*rise, options.interval), run.text()));
}

void check_schedule(Checker& checker, const Place& place, const RunLength& length) {
  if (!checker.is_valid(place.path)) return;
  if (const auto* sequence = place.stage.get_if<scheduler::SequentialLr>())
    check_sequence(checker, place.path, *sequence, length);
  const scheduler::Warmup* options = scheduler::warmup_of(place.stage);
  if (options == nullptr) return;
  check_warmup(checker, place.path, *options, length);
  check_drops(checker, place, run_of(checker, length, options->interval));
  check_end(checker, place);
}

void check_groups(Checker& checker, const Place& optimizer, const RunLength& length) {
  const auto* options = base_of<optimizer::Base>(optimizer.stage);
  if (options == nullptr) return;
  for (std::size_t i = 0; i < options->groups.size(); ++i) {
    const optimizer::ParameterRule& group = options->groups[i];
    const std::string path = fmt::format("{}.groups.{}", optimizer.path, i);
    check_schedule(checker, {group.scheduler, path + ".scheduler"}, length);
    check_groups(checker, {group.optimizer, path + ".optimizer"}, length);
  }
}

}  // namespace

void check_schedulers(Checker& checker, const RunLength& length) {
  const Experiment& experiment = checker.experiment();
  check_schedule(checker, {experiment.scheduler, "scheduler"}, length);
  check_momentum(checker, experiment.scheduler, "scheduler");
  check_groups(checker, {experiment.optimizer, "optimizer"}, length);
}

}  // namespace trainctl::spec
