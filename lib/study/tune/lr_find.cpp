#include "study/tune/lr_find.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/options/base_of.hpp"
#include "spec/options/optimizer.hpp"
#include "study/bench/trials.hpp"

#include <cmath>
#include <limits>

namespace trainctl::study {
namespace {

/// Adds the step whose loss is missing: on a CPU a loss that is not finite ends the run and is not
/// logged. It belongs to the rate after the last logged one.
void add_fatal_step(std::vector<report::RateStep>& steps) {
  if (steps.empty()) return;
  const double last = steps.back().lr;
  const double next = steps.size() < 2 ? last : last * last / steps[steps.size() - 2].lr;
  steps.push_back({next, std::numeric_limits<double>::quiet_NaN()});
}

bool diverged(int exit_code) { return exit_code == static_cast<int>(ErrorKind::diverged); }

}  // namespace

std::optional<SecondRate> second_rate(const spec::Experiment& experiment) {
  const config::Stage& optimizer = experiment.optimizer;
  if (optimizer.options_type != typeid(spec::optimizer::Muon)) return std::nullopt;
  const auto& muon = optimizer.as<spec::optimizer::Muon>();
  if (!muon.adamw_lr || !(muon.lr > 0)) return std::nullopt;
  return SecondRate{"optimizer.adamw_lr", *muon.adamw_lr / muon.lr};
}

std::vector<std::string> held_groups(const spec::Experiment& experiment) {
  std::vector<std::string> overrides;
  const auto* options = spec::base_of<spec::optimizer::Base>(experiment.optimizer);
  for (std::size_t i = 0; options != nullptr && i < options->groups.size(); ++i) {
    if (options->groups[i].optimizer)
      overrides.push_back(fmt::format("++optimizer.groups.{}.scheduler=constant", i));
  }
  return overrides;
}

// The scheduler multiplies both rates by the same factor, so both must start with the same ratio.
std::vector<std::string> lr_sweep(const LrRange& range, const std::optional<SecondRate>& second) {
  ENSURE(config, std::isfinite(range.high) && range.low > 0 && range.low < range.high,
         "--min must be above 0 and below a finite --max, got {:g} and {:g}", range.low,
         range.high);
  ENSURE(config, range.steps >= report::kFewestRates, "--steps must be at least {}, got {}",
         report::kFewestRates, range.steps);
  const double gamma = std::pow(range.high / range.low, 1.0 / (range.steps - 1));
  std::vector<std::string> overrides = short_run(range.steps);
  overrides.push_back(fmt::format(
      "++early_stopping={{type: divergence, monitor: train/loss, factor: {:g}, "
      "min_delta: {:g}, patience: 1, smoothing: {:g}, skip_first: {}}}",
      report::kOutOfHand, report::kLeastRise, report::kSmoothing, report::kFewestRates - 1));
  overrides.push_back(fmt::format("++optimizer.lr={:.17g}", range.low));
  if (second)
    overrides.push_back(fmt::format("++{}={:.17g}", second->key, range.low * second->ratio));
  overrides.push_back(
      fmt::format("++scheduler={{type: exponential_lr, gamma: {:.17g}, interval: step}}", gamma));
  return overrides;
}

LrFinding find_lr(const RunRequest& request, const std::optional<SecondRate>& second,
                  const Clock& clock) {
  std::vector<report::RateStep> steps;
  const auto add_step = [&](const events::StepLogged& step) {
    steps.push_back({step.lr, step.loss});
  };
  LrFinding finding{.run = run_with(request, add_step, clock), .curve = {}, .second = second};
  finding.tried = steps.size();
  finding.curve = report::read_lr_curve(steps);
  if (diverged(finding.run.ending.exit_code)) {
    constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();
    const auto planned =
        static_cast<std::size_t>(request.loaded.experiment.trainer.max_steps.value_or(kNoLimit));
    if (!finding.curve.diverged_at && steps.size() < planned) {  // no divergence was logged
      add_fatal_step(steps);
      finding.curve = report::read_lr_curve(steps);
    }
    finding.stopped_early = steps.size() < planned;
  }
  write_atomically(finding.run.folder / "lr_find.csv", report::lr_curve_csv(finding.curve));
  return finding;
}

std::vector<std::string> overrides_of(const LrFinding& finding) {
  const std::optional<double> suggested = finding.curve.suggestion();
  if (!suggested) return {};
  const double lr = *suggested;
  std::vector<std::string> found{"optimizer.lr=" + report::rate_of(lr)};
  if (finding.second)
    found.push_back(finding.second->key + "=" + report::rate_of(lr * finding.second->ratio));
  return found;
}

int exit_code_of(const LrFinding& finding) {
  const int code = finding.run.ending.exit_code;
  if (code != 0 && !diverged(code)) return code;
  if (finding.curve.suggestion()) return 0;
  return code != 0 ? code : static_cast<int>(ErrorKind::inconclusive);
}

}  // namespace trainctl::study
