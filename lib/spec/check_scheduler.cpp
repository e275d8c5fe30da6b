#include "spec/checker.hpp"
#include "spec/stage_headers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace trainctl::spec {
namespace {

using scheduler::Interval;

// The options as `Base` where the stage's own type derives from it.
template <class Base, class Options>
const Base* base_of(const config::Stage& stage) {
  if constexpr (std::is_base_of_v<Base, Options>) {
    if (stage.options_type == typeid(Options)) return &stage.as<Options>();
  }
  return nullptr;
}

const scheduler::Warmup* warmup_of(const config::Stage& stage) {
  const scheduler::Warmup* found = nullptr;
#define TRAINCTL_WARMUP(kind, name, Type) \
  if (found == nullptr) found = base_of<scheduler::Warmup, kind::Type>(stage);
  TRAINCTL_FOR_EACH_STAGE(TRAINCTL_WARMUP)
#undef TRAINCTL_WARMUP
  return found;
}

std::string counted(std::int64_t count, Interval interval) {
  return fmt::format("{} {}{}", count, interval == Interval::epoch ? "epoch" : "step",
                     count == 1 ? "" : "s");
}

void check_milestones(Checker& checker, const scheduler::MultiStepLr& options,
                      std::optional<std::int64_t> run) {
  for (std::size_t i = 0; i < options.milestones.size(); ++i) {
    const std::string path = fmt::format("scheduler.milestones.{}", i);
    if (i > 0 && options.milestones[i] <= options.milestones[i - 1]) {
      checker.error(path, fmt::format("the milestones must rise, but {} follows {}",
                                      options.milestones[i], options.milestones[i - 1]));
    } else if (run && options.milestones[i] >= *run) {
      checker.warning(path, fmt::format("the milestone at {} is never reached: the run has {}",
                                        options.milestones[i], counted(*run, options.interval)));
    }
  }
}

void check_drops(Checker& checker, const config::Stage& stage, std::optional<std::int64_t> run) {
  if (stage.options_type == typeid(scheduler::MultiStepLr)) {
    check_milestones(checker, stage.as<scheduler::MultiStepLr>(), run);
  } else if (stage.options_type == typeid(scheduler::StepLr)) {
    const auto& options = stage.as<scheduler::StepLr>();
    if (run && options.step_size >= *run) {
      checker.warning("scheduler.step_size",
                      fmt::format("the rate never drops: step_size is {}, the run has {}",
                                  options.step_size, counted(*run, options.interval)));
    }
  } else if (stage.options_type == typeid(scheduler::ReduceLrOnPlateau) &&
             stage.as<scheduler::ReduceLrOnPlateau>().interval == Interval::step) {
    checker.error("scheduler.interval",
                  "reduce_lr_on_plateau counts epochs: it watches a value that comes once an epoch",
                  "write 'interval: epoch'");
  }
}

void check_end(Checker& checker, const config::Stage& stage) {
  const Trainer& trainer = checker.experiment().trainer;
  const bool ends = trainer.epoch_limit() || trainer.max_steps;
  if (ends || stage.options_type != typeid(scheduler::CosineAnnealingLr) ||
      !checker.sound("trainer"))
    return;
  if (stage.as<scheduler::CosineAnnealingLr>().t_max.is_auto()) {
    checker.error("scheduler.t_max",
                  "'auto' is the whole run, and max_time alone does not tell its length",
                  "set 't_max', 'trainer.max_epochs' or 'trainer.max_steps'");
  }
}

}  // namespace

void check_scheduler(Checker& checker, const RunLength& length) {
  const config::Stage& stage = checker.experiment().scheduler;
  const scheduler::Warmup* options = warmup_of(stage);
  if (options == nullptr || !checker.sound("scheduler")) return;
  const bool knows_length = checker.sound({"trainer.max_epochs", "trainer.max_steps"});
  std::optional<std::int64_t> run;
  if (knows_length)
    run = options->interval == Interval::epoch ? length.known_epochs() : length.steps;
  if (run && options->warmup > 0 && options->warmup >= *run) {
    checker.error(
        "scheduler.warmup",
        fmt::format("the warm-up of {} must be shorter than the run of {}",
                    counted(options->warmup, options->interval), counted(*run, options->interval)));
  }
  check_drops(checker, stage, run);
  check_end(checker, stage);
}

}  // namespace trainctl::spec
