#include "study/sweep/run_scheduler.hpp"

#include "base/error.hpp"
#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace trainctl::study {
namespace {

using report::SweepStatus;

/// The runs of one setting, which differ only in their seeds and advance together.
using SeedGroup = std::vector<const LedgerRun*>;

std::vector<SeedGroup> settings_of(const std::vector<LedgerRun>& runs) {
  std::vector<SeedGroup> settings;
  std::map<std::string, std::size_t> places;
  for (const LedgerRun& run : runs) {
    const auto [place, is_new] = places.try_emplace(run.plan.config, settings.size());
    if (is_new) settings.emplace_back();
    settings[place->second].push_back(&run);
  }
  return settings;
}

int target_of(const SeedGroup& setting) {
  int target = -1;
  for (const LedgerRun* run : setting) target = std::max(target, run->target);
  return target;
}

/// A run that has ended by itself counts for every rung up to its target.
bool has_reached(const LedgerRun& run, int rung) {
  return run.rung >= rung || run.status == SweepStatus::ok || run.status == SweepStatus::failed;
}

std::optional<double> value_at_rung(const LedgerRun& run, int rung) {
  if (run.status == SweepStatus::failed || run.rung_values.empty()) return std::nullopt;
  const std::size_t last = run.rung_values.size() - 1;
  return run.rung_values[std::min(last, static_cast<std::size_t>(rung))];
}

std::optional<double> value_at_rung(const SeedGroup& setting, int rung) {
  std::vector<double> values;
  for (const LedgerRun* run : setting) {
    const auto value = value_at_rung(*run, rung);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return mean(values);
}

Halving halving_of(const std::vector<SeedGroup>& settings, const SweepPlan& plan) {
  Halving halving(plan.rungs.size(), plan.eta, plan.ranking.better);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const int target = target_of(settings[i]);
    const int last = std::min(target, static_cast<int>(plan.rungs.size()) - 1);
    for (int rung = 0; rung <= last; ++rung) {
      halving.begin(static_cast<std::size_t>(rung), i);
      const bool all_reached = std::ranges::all_of(
          settings[i], [&](const LedgerRun* run) { return has_reached(*run, rung); });
      if (all_reached)
        halving.report(static_cast<std::size_t>(rung), i, value_at_rung(settings[i], rung));
    }
  }
  return halving;
}

/// Returns whether a seed was added to the definition after the others had advanced.
bool has_late_seed(const SeedGroup& setting) {
  const int target = target_of(setting);
  return std::ranges::any_of(setting, [&](const LedgerRun* run) {
    return run->status == SweepStatus::pending && run->target < target;
  });
}

void set_target(Ledger& ledger, const SeedGroup& setting, int rung) {
  std::vector<std::int64_t> numbers;
  for (const LedgerRun* run : setting) numbers.push_back(run->number);
  ledger.set_target(numbers, rung);
}

}  // namespace

std::optional<LedgerRun> next_run(Ledger& ledger, const SweepPlan& plan) {
  for (;;) {
    const std::vector<LedgerRun> runs = ledger.runs();
    const auto ready = std::ranges::find_if(runs, [](const LedgerRun& run) {
      return run.status == SweepStatus::pending && run.target > run.rung;
    });
    if (ready != runs.end()) return *ready;
    const std::vector<SeedGroup> settings = settings_of(runs);
    if (const auto late = std::ranges::find_if(settings, has_late_seed); late != settings.end()) {
      set_target(ledger, *late, target_of(*late));
      continue;
    }
    if (const auto promoted = halving_of(settings, plan).next()) {
      set_target(ledger, settings[promoted->setting], static_cast<int>(promoted->rung));
      continue;
    }
    const auto fresh = std::ranges::find_if(
        settings, [](const SeedGroup& setting) { return target_of(setting) < 0; });
    if (fresh == settings.end()) return std::nullopt;
    set_target(ledger, *fresh, 0);
  }
}

std::vector<std::int64_t> rungs_of(std::int64_t least, std::int64_t most, int eta) {
  ENSURE(config, eta >= 2, "--eta must be at least 2, got {}", eta);
  ENSURE(config, least >= 1, "--min-epochs must be at least 1, got {}", least);
  ENSURE(
      config, least < most,
      "--min-epochs must be below trainer.max_epochs, got {} and {}\nhint: lower --min-epochs or "
      "raise trainer.max_epochs",
      least, most);
  std::vector<std::int64_t> rungs;
  for (std::int64_t epochs = least; epochs < most; epochs *= eta) {
    rungs.push_back(epochs);
    if (epochs > most / eta) break;  // prevents an integer overflow
  }
  rungs.push_back(most);
  return rungs;
}

void Halving::report(std::size_t rung, std::size_t setting, std::optional<double> value) {
  ASSERT(rung < rungs_.size());
  if (value && !std::isfinite(*value)) value.reset();
  rungs_[rung].values[setting] = value;
  begin(rung, setting);
}

void Halving::begin(std::size_t rung, std::size_t setting) {
  ASSERT(rung < rungs_.size());
  for (std::size_t i = 0; i <= rung; ++i) rungs_[i].begun[setting] = true;
}

std::optional<Halving::Promotion> Halving::next() const {
  for (std::size_t rung = rungs_.size() - 1; rung-- > 0;) {
    std::vector<std::pair<double, std::size_t>> best;
    for (const auto& [setting, value] : rungs_[rung].values) {
      if (value) best.emplace_back(better_ == report::Better::lower ? *value : -*value, setting);
    }
    std::ranges::sort(best);
    const std::size_t most = rungs_[rung].values.size() / static_cast<std::size_t>(eta_);
    for (std::size_t i = 0; i < std::min(most, best.size()); ++i) {
      if (!rungs_[rung + 1].begun.contains(best[i].second))
        return Promotion{best[i].second, rung + 1};
    }
  }
  return std::nullopt;
}

}  // namespace trainctl::study
