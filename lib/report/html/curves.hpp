#pragma once

#include "report/html/html.hpp"
#include "report/html/line_chart.hpp"
#include "report/record/run_files.hpp"

// The charts of one run, and of several in one.

namespace trainctl::report {

/// Names of the metrics that the epochs tell, each once, in their order: "train/loss", "val/loss".
std::vector<std::string> metric_names(const std::vector<events::EpochEnded>& epochs);

/// Loss and metrics over the epochs, those of training and validation in one chart: a figure for
/// "loss", one for "accuracy".
std::vector<Html> metric_figures(const RunFiles& run);
/// What the steps tell: loss, learning rate, norms of gradients and parameters. Without steps the
/// learning rate of the epochs.
std::vector<Html> step_figures(const RunFiles& run);
/// Seconds of each epoch by part, and samples a second.
std::vector<Html> time_figures(const RunFiles& run);
/// CPU, memory, GPU, reading: only what was measured.
std::vector<Html> utilisation_figures(const RunFiles& run);

/// A run or a group of runs in a chart of several.
struct Strand {
  std::string name;
  const std::vector<events::EpochEnded>* epochs = nullptr;
  std::size_t color = 0;
  LineLook look = LineLook::solid;
};
/// A figure a metric, with a line for each strand that has it. At most `most` figures.
std::vector<Html> strand_figures(const std::vector<Strand>& strands, std::size_t most);
/// The same for samples a second.
Html strand_throughput(const std::vector<Strand>& strands);

/// Returns the label of a phase in these runs: copies to a device are conversions on CPUs.
std::string phase_label(const events::TimingPhase& phase, std::span<const RunFiles* const> runs);

}  // namespace trainctl::report
