#include "study/bench.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

namespace trainctl::study {

std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, int repeats, const RunTrial& run_trial) {
  std::vector<report::BenchRow> rows;
  for (const Setting& setting : settings) rows.push_back({setting.technique, setting.values, {}});
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const std::string frame = fmt::format("{} (run {} of {})", printable(settings[i].technique), repeat + 1, repeats);
      rows[i].trials.push_back(in_context(frame, [&] { return run_trial(i, repeat); }));
    }
  }
  return rows;
}

}  // namespace trainctl::study
