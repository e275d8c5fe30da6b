#pragma once

#include "config/schema/describe.hpp"
#include "config/schema/schema.hpp"
#include "spec/experiment/enums.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec::scheduler {

enum class Interval { epoch, step };
constexpr std::array<const char*, 2> enum_names(Interval) { return {"epoch", "step"}; }

/// Returns "5 epochs", "1 step".
std::string counted(std::int64_t count, Interval interval);

/// The length of a warm-up. In YAML `500` is a number of the scheduler's intervals, `5ep` a number
/// of epochs, and a number with a decimal point (`0.05`) a fraction of the run.
struct WarmupLength {
  enum class Unit { intervals, epochs, run };

  double value = 0;
  Unit unit = Unit::intervals;

  bool operator==(const WarmupLength&) const = default;
};

}  // namespace trainctl::spec::scheduler

template <>
struct trainctl::config::Codec<trainctl::spec::scheduler::WarmupLength> {
  static FieldType type();
  static void read(Reader& reader, const Node& node, const Field& field,
                   spec::scheduler::WarmupLength& out);
  static Node write(const spec::scheduler::WarmupLength& length);
};

namespace trainctl::spec::scheduler {

/// The properties of the run that a schedule is computed for.
struct ScheduledRun {
  Interval interval = Interval::epoch;         // the unit of the schedule
  std::int64_t steps_per_epoch = 0;            // 0: unknown
  std::optional<std::int64_t> intervals = {};  // of the whole run; nullopt: unknown
};

/// Returns the length in the schedule's intervals; nullopt if it depends on an unknown property of
/// the run. A length above 0 is at least one interval.
std::optional<std::int64_t> intervals_of(const WarmupLength& length, const ScheduledRun& run);

/// Options of every scheduler: a linear warm-up before its curve.
struct Warmup {
  WarmupLength warmup;
  double warmup_start_factor = 0.1;
  Interval interval = Interval::epoch;

  static void describe(auto& options) {
    options.field("warmup", &Warmup::warmup, {.at_least = 0, .example = "5ep"},
                  "Length of a linear warm-up: 500 is a number of intervals (see `interval`), 5ep "
                  "a number of epochs, 0.05 a fraction of the run; 0: none. With 'interval: step' "
                  "the learning rate rises at every step.");
    options.field("warmup_start_factor", &Warmup::warmup_start_factor, {.above = 0, .at_most = 1},
                  "Fraction of the learning rate at which the warm-up starts.");
    options.field("interval", &Warmup::interval,
                  "What the scheduler counts: epochs or optimizer steps.");
  }
};

/// Returns the warm-up of a scheduler; null if it has none.
const Warmup* warmup_of(const config::Stage& stage);

struct StepLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the learning rate by gamma every step_size intervals, as torch's StepLR.";

  std::int64_t step_size = 1;
  double gamma = 0.1;

  static void describe(auto& options) {
    options.field("step_size", &StepLr::step_size,
                  {.required = true, .at_least = 1, .example = "30"},
                  "Intervals between two drops.");
    options.field("gamma", &StepLr::gamma, {.above = 0}, "Factor of each drop.");
    Warmup::describe(options);
  }
};

struct MultiStepLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the learning rate by gamma at each milestone, as torch's MultiStepLR.";

  std::vector<std::int64_t> milestones;
  double gamma = 0.1;

  static void describe(auto& options) {
    options.field("milestones", &MultiStepLr::milestones,
                  {.required = true, .not_empty = true, .at_least = 1, .example = "[30, 60]"},
                  "Intervals at which the learning rate drops, in ascending order.");
    options.field("gamma", &MultiStepLr::gamma, {.above = 0}, "Factor of each drop.");
    Warmup::describe(options);
  }
};

struct Constant : Warmup {
  static constexpr auto kSummary = "Constant learning rate, after an optional warm-up.";
};

struct ConstantLr : Warmup {
  static constexpr auto kSummary =
      "A fraction of the learning rate for the first intervals, then the full rate, as torch's "
      "ConstantLR; `constant` never changes the rate.";

  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;

  static void describe(auto& options) {
    options.field("factor", &ConstantLr::factor, {.at_least = 0, .at_most = 1},
                  "Fraction of the learning rate in the first intervals.");
    options.field("total_iters", &ConstantLr::total_iters, {.at_least = 0},
                  "Number of intervals with the reduced learning rate.");
    Warmup::describe(options);
  }
};

struct ExponentialLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the learning rate by gamma every interval, as torch's ExponentialLR.";

  double gamma = 0.95;

  static void describe(auto& options) {
    options.field("gamma", &ExponentialLr::gamma, {.required = true, .above = 0, .example = "0.95"},
                  "Factor of each interval.");
    Warmup::describe(options);
  }
};

struct LinearLr : Warmup {
  static constexpr auto kSummary =
      "Changes the learning rate linearly from start_factor to end_factor times its value, as "
      "torch's LinearLR.";

  double start_factor = 1.0 / 3;
  double end_factor = 1;
  config::Auto<std::int64_t> total_iters{5};

  static void describe(auto& options) {
    options.field("start_factor", &LinearLr::start_factor, {.above = 0, .at_most = 1},
                  "Fraction of the learning rate at the start.");
    options.field("end_factor", &LinearLr::end_factor, {.at_least = 0, .at_most = 1},
                  "Fraction of the learning rate at the end.");
    options.field("total_iters", &LinearLr::total_iters, {.at_least = 1},
                  "Intervals from start to end; auto: the whole run after warm-up.");
    Warmup::describe(options);
  }
};

struct PolynomialLr : Warmup {
  static constexpr auto kSummary =
      "Polynomial decay of the learning rate to 0, as torch's PolynomialLR.";

  config::Auto<std::int64_t> total_iters{5};
  double power = 1;

  static void describe(auto& options) {
    options.field("total_iters", &PolynomialLr::total_iters, {.at_least = 1},
                  "Intervals until the rate is 0; auto: the whole run after warm-up.");
    options.field("power", &PolynomialLr::power, {.above = 0}, "Exponent of the polynomial.");
    Warmup::describe(options);
  }
};

struct CosineAnnealingLr : Warmup {
  static constexpr auto kSummary =
      "Cosine decay of the learning rate to eta_min, as torch's CosineAnnealingLR.";

  config::Auto<std::int64_t> t_max;
  double eta_min = 0;

  static void describe(auto& options) {
    options.field("t_max", &CosineAnnealingLr::t_max, {.at_least = 1},
                  "Intervals until the rate is eta_min; auto: the whole run after warm-up.");
    options.field("eta_min", &CosineAnnealingLr::eta_min, {.at_least = 0}, "Lowest learning rate.");
    Warmup::describe(options);
  }
};

struct CosineAnnealingWarmRestarts : Warmup {
  static constexpr auto kSummary =
      "Cosine decay with warm restarts (SGDR, Loshchilov & Hutter 2016), as torch's "
      "CosineAnnealingWarmRestarts.";

  std::int64_t t_0 = 1;
  std::int64_t t_mult = 1;
  double eta_min = 0;

  static void describe(auto& options) {
    options.field("t_0", &CosineAnnealingWarmRestarts::t_0,
                  {.required = true, .at_least = 1, .example = "10"},
                  "Intervals to the first restart.");
    options.field("t_mult", &CosineAnnealingWarmRestarts::t_mult, {.at_least = 1},
                  "Factor by which each cycle is longer than the one before.");
    options.field("eta_min", &CosineAnnealingWarmRestarts::eta_min, {.at_least = 0},
                  "Lowest learning rate.");
    Warmup::describe(options);
  }
};

enum class DecayShape { linear, cosine, one_minus_sqrt };
constexpr std::array<const char*, 3> enum_names(DecayShape) {
  return {"linear", "cosine", "one_minus_sqrt"};
}

struct Wsd : Warmup {
  static constexpr auto kSummary =
      "Warmup-stable-decay: a constant learning rate that decays at the end of the run (Hu et al. "
      "2024; Hägele et al. 2024).";

  double decay_fraction = 0.2;
  DecayShape decay = DecayShape::one_minus_sqrt;
  double end_factor = 0;

  static void describe(auto& options) {
    options.field("decay_fraction", &Wsd::decay_fraction, {.above = 0, .at_most = 1},
                  "Fraction of the run after warm-up in which the learning rate decays.");
    options.field("decay", &Wsd::decay, "Shape of the decay.");
    options.field("end_factor", &Wsd::end_factor, {.at_least = 0, .at_most = 1},
                  "Final learning rate as a fraction of the initial one.");
    Warmup::describe(options);
  }
};

enum class AnnealStrategy { cos, linear };
constexpr std::array<const char*, 2> enum_names(AnnealStrategy) { return {"cos", "linear"}; }

struct OneCycleLr : Warmup {
  static constexpr auto kSummary =
      "One cycle up to the optimizer's learning rate and down again (Smith & Topin 2017), as "
      "torch's OneCycleLR with max_lr = optimizer.lr.";

  config::Auto<std::int64_t> total_steps;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;

  OneCycleLr() { interval = Interval::step; }
  static void describe(auto& options) {
    options.field("total_steps", &OneCycleLr::total_steps, {.at_least = 2},
                  "Intervals of the cycle; auto: the whole run after warm-up.");
    options.field("pct_start", &OneCycleLr::pct_start, {.above = 0, .below = 1},
                  "Fraction of the cycle in which the learning rate rises.");
    options.field("anneal_strategy", &OneCycleLr::anneal_strategy,
                  "Shape of the rise and the decay.");
    options.field("div_factor", &OneCycleLr::div_factor, {.above = 0},
                  "The cycle starts with optimizer.lr divided by this.");
    options.field("final_div_factor", &OneCycleLr::final_div_factor, {.above = 0},
                  "The cycle ends with the initial learning rate divided by this.");
    options.field("three_phase", &OneCycleLr::three_phase,
                  "The learning rate falls over as many intervals as it rises, then decays to the "
                  "final rate; pct_start must be at most 0.5.");
    options.field("cycle_momentum", &OneCycleLr::cycle_momentum,
                  "Lowers the momentum, or Adam's beta1, while the learning rate rises, and raises "
                  "it again afterwards, instead of the optimizer's constant value. Steps are then "
                  "not captured as CUDA graphs.");
    options.field("base_momentum", &OneCycleLr::base_momentum, {.at_least = 0, .below = 1},
                  "Momentum at the highest rate, with cycle_momentum.");
    options.field("max_momentum", &OneCycleLr::max_momentum, {.at_least = 0, .below = 1},
                  "Momentum at the start and at the end, with cycle_momentum.");
    Warmup::describe(options);
  }
};

enum class ThresholdMode { rel, abs };
constexpr std::array<const char*, 2> enum_names(ThresholdMode) { return {"rel", "abs"}; }

struct ReduceLrOnPlateau : Warmup {
  static constexpr auto kSummary =
      "Lowers the learning rate when the monitored value stops improving, as torch's "
      "ReduceLROnPlateau.";

  std::string monitor = "val/loss";
  config::Auto<Mode> mode;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;

  static void describe(auto& options) {
    options.field("monitor", &ReduceLrOnPlateau::monitor, "Value to monitor.");
    options.field("mode", &ReduceLrOnPlateau::mode,
                  "min: lower is better; max: higher is better; auto: min for loss, mae, rmse and "
                  "perplexity, max for all other values.");
    options.field("factor", &ReduceLrOnPlateau::factor, {.above = 0, .below = 1},
                  "Factor of each drop.");
    options.field("patience", &ReduceLrOnPlateau::patience, {.at_least = 0},
                  "Epochs without improvement before a drop.");
    options.field("threshold", &ReduceLrOnPlateau::threshold, {.at_least = 0},
                  "Smallest change that counts as improvement.");
    options.field("threshold_mode", &ReduceLrOnPlateau::threshold_mode,
                  "rel: threshold is a fraction of the best value; abs: threshold is a difference "
                  "from the best value.");
    options.field(
        "cooldown", &ReduceLrOnPlateau::cooldown, {.at_least = 0},
        "Epochs to wait after a drop until epochs without improvement are counted again.");
    options.field("min_lr", &ReduceLrOnPlateau::min_lr, {.at_least = 0}, "Lowest learning rate.");
    options.field("eps", &ReduceLrOnPlateau::eps, {.at_least = 0},
                  "Drops of the learning rate that are smaller than this are skipped.");
    Warmup::describe(options);
  }
};

struct SequentialLr {
  static constexpr auto kSummary =
      "Several schedulers in sequence, as torch's SequentialLR; each counts from its own start.";

  std::vector<config::Stage> schedulers;
  std::vector<std::int64_t> milestones;
  Interval interval = Interval::epoch;

  static void describe(auto& options) {
    options.stages("schedulers", &SequentialLr::schedulers, "scheduler",
                   {.required = true,
                    .not_empty = true,
                    .example = "[{type: linear_lr, start_factor: 0.1, end_factor: 1, total_iters: "
                               "5}, cosine_annealing_lr]"},
                   "The schedulers, in order.");
    options.field("milestones", &SequentialLr::milestones,
                  {.required = true, .at_least = 1, .example = "[5]"},
                  "Intervals at which the second and later schedulers start.");
    options.field("interval", &SequentialLr::interval,
                  "What the milestones count: epochs or optimizer steps.");
  }
};

}  // namespace trainctl::spec::scheduler

namespace trainctl::spec {

/// Returns the initial momentum of a scheduler that cycles it, also within a sequence; nullopt if
/// none does.
std::optional<double> scheduled_momentum(const config::Stage& stage);

/// Returns the optimizer to use with the scheduler. If its momentum is 0 and the scheduler cycles
/// the momentum, it gets the scheduler's, like PyTorch's OneCycleLR sets it, so that it allocates
/// buffers.
config::Stage with_scheduled_momentum(const config::Stage& stage,
                                      const config::Stage& scheduler_stage);

}  // namespace trainctl::spec
