#include "report/compare/samples.hpp"

#include <utility>

namespace trainctl::report {
namespace {

using Told = std::vector<std::pair<std::string, double>>;

Told told_by(const Trial& trial) {
  Told told{{"samples_per_s", trial.samples_per_s},
            {"total_s", trial.total_s},
            {"epoch_s", steady_epoch_s(trial)},
            {"startup_s", trial.startup_s},
            {"first_batch_s", trial.first_batch_s}};
  if (trial.rss_mb > 0) told.emplace_back("rss_mb", trial.rss_mb);
  if (trial.gpu_mem_mb) told.emplace_back("gpu_mem_mb", *trial.gpu_mem_mb);
  if (trial.exposed_s) told.emplace_back("exposed_s", *trial.exposed_s);
  told.insert(told.end(), trial.metrics.begin(), trial.metrics.end());
  return told;
}

}  // namespace

Samples samples_of(std::span<const Trial> trials) {
  Samples samples;
  for (const Trial& trial : trials) {
    for (const auto& [name, value] : told_by(trial)) samples[name].push_back(value);
  }
  std::erase_if(samples, [&](const auto& each) { return each.second.size() != trials.size(); });
  return samples;
}

}  // namespace trainctl::report
