#pragma once

#include "report/html/line_chart.hpp"
#include "report/record/run_files.hpp"

// The charts of one run, and of several runs in one chart.

namespace trainctl::report {

/// Returns the names of the epochs' metrics, each once, in order of appearance: "train/loss",
/// "val/loss".
std::vector<std::string> metric_names(const std::vector<events::EpochEnded>& epochs);

/// Returns the loss and metrics over the epochs, training and validation in one chart: a figure for
/// "loss", one for "accuracy".
std::vector<Html> metric_figures(const RunFiles& run);
/// Returns the values of the steps: loss, learning rate, norms of gradients and parameters. Without
/// steps, returns the learning rate of the epochs.
std::vector<Html> step_figures(const RunFiles& run);
/// Returns the seconds of each epoch by part, and the samples per second.
std::vector<Html> time_figures(const RunFiles& run);
/// Returns the measured utilization of CPU, memory, GPU and disk reads.
std::vector<Html> utilization_figures(const RunFiles& run);

/// A run or a group of runs in a chart of several.
struct CurveSeries {
  std::string name;
  const std::vector<events::EpochEnded>* epochs = nullptr;
  std::size_t color = 0;
  LineLook look = LineLook::solid;
};
/// Returns a figure per metric, with a line for each strand that has it; at most `most` figures.
std::vector<Html> strand_figures(const std::vector<CurveSeries>& strands, std::size_t most);
/// Returns the same for samples per second.
Html strand_throughput(const std::vector<CurveSeries>& strands);

/// Returns the label of a phase in these runs; on CPUs the copy to the device is a conversion.
std::string phase_label(const events::TimingPhase& phase, std::span<const RunFiles* const> runs);

}  // namespace trainctl::report
