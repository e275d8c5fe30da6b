#include "study/sweep/halving.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainctl::study {

std::vector<std::int64_t> rungs_of(std::int64_t least, std::int64_t most, int eta) {
  ENSURE(config, eta >= 2, "--eta is {}, expected 2 or more", eta);
  ENSURE(config, least >= 1, "--min-epochs is {}, expected 1 or more", least);
  ENSURE(config, least < most,
         "--min-epochs is {} and trainer.max_epochs {}: nothing could be stopped early; lower the "
         "one or raise the other",
         least, most);
  std::vector<std::int64_t> rungs;
  for (std::int64_t epochs = least; epochs < most; epochs *= eta) {
    rungs.push_back(epochs);
    if (epochs > most / eta) break;  // the next may be more than a number holds
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
