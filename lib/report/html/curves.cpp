#include "report/html/curves.hpp"

#include "report/html/charts.hpp"

namespace trainctl::report {
namespace {

using events::EpochEnded;
using events::StepLogged;
using events::Timing;
using events::TimingPhase;
using Epochs = std::vector<EpochEnded>;
using OfEpoch = std::function<double(const EpochEnded&)>;

Series over_epochs(const Epochs& epochs, const std::string& name, const OfEpoch& value) {
  Series series{.name = name};
  for (const EpochEnded& epoch : epochs) {
    series.x.push_back(static_cast<double>(epoch.epoch + 1));
    series.y.push_back(value(epoch));
  }
  return series;
}

OfEpoch metric(const std::string& name) {
  return [name](const EpochEnded& epoch) {
    return events::find_metric(epoch.metrics, name).value_or(std::nan(""));
  };
}

/// Removes missing values, so that a metric that is not computed in every epoch (val_check) is
/// still drawn as a line.
Series without_gaps(Series series) {
  Series dense{.name = series.name, .color = series.color, .look = series.look};
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (std::isnan(series.y[i])) continue;
    dense.x.push_back(series.x[i]);
    dense.y.push_back(series.y[i]);
  }
  return dense;
}

/// Returns "accuracy" for "val/accuracy".
std::string short_name(const std::string& name) { return name.substr(name.find('/') + 1); }

/// Uses an automatic scale for losses, which may span powers of ten.
AxisScale scale_of(const std::string& metric) {
  return metric.find("loss") == std::string::npos ? AxisScale::linear : AxisScale::automatic;
}

std::vector<Html> without_empty(std::vector<Html> figures) {
  std::erase_if(figures, [](const Html& figure) { return figure.empty(); });
  return figures;
}

void push(std::vector<Html>& figures, Html figure) {
  if (!figure.empty()) figures.push_back(std::move(figure));
}

struct StepPlot {
  const char* title;
  const char* y_label;
  std::function<std::optional<double>(const StepLogged&)> value;
  AxisScale scale;
};

Series over_steps(const RunFiles& run, const StepPlot& plot) {
  Series series{.name = plot.y_label};
  for (const StepLogged& line : run.steps.lines()) {
    series.x.push_back(static_cast<double>(line.global_step));
    series.y.push_back(plot.value(line).value_or(std::nan("")));
  }
  return series;
}

double epoch_rate(const EpochEnded& epoch) { return epoch.timing.samples_per_s; }

/// Returns an empty figure if no value is positive, because then nothing was measured.
Html measured(const Epochs& epochs, LineChart chart, const std::vector<OfEpoch>& values) {
  std::vector<Series> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Series series = over_epochs(epochs, chart.series[i].name, values[i]);
    series.color = i;
    if (std::ranges::any_of(series.y, [](double value) { return value > 0; }))
      kept.push_back(std::move(series));
  }
  chart.series = std::move(kept);
  chart.y_from = 0;
  return line_chart(chart);
}

}  // namespace

std::string phase_label(const TimingPhase& phase, std::span<const RunFiles* const> runs) {
  return std::string(phase.seconds == &Timing::h2d_s ? transfer_name(runs) : phase.label);
}

std::vector<std::string> metric_names(const Epochs& epochs) {
  std::vector<std::string> names;
  for (const EpochEnded& epoch : epochs) {
    for (const auto& [name, value] : epoch.metrics) add_new(names, name);
  }
  return names;
}

std::vector<Html> metric_figures(const RunFiles& run) {
  constexpr std::size_t kMost = 24;
  const std::vector<std::string> names = metric_names(run.epochs);
  std::vector<std::string> shorts;
  for (const std::string& name : names) add_new(shorts, short_name(name));
  std::vector<Html> figures;
  for (const std::string& wanted : shorts) {
    if (figures.size() == kMost) break;
    LineChart chart{
        .title = wanted, .x_label = "epoch", .y_label = wanted, .scale = scale_of(wanted)};
    for (const std::string& name : names) {
      if (short_name(name) != wanted) continue;
      chart.series.push_back(without_gaps(over_epochs(run.epochs, name, metric(name))));
      chart.series.back().color = chart.series.size() - 1;
    }
    push(figures, line_chart(chart));
  }
  return figures;
}

std::vector<Html> step_figures(const RunFiles& run) {
  const StepPlot plots[] = {
      {"Training loss of the steps", "loss", &StepLogged::loss, AxisScale::automatic},
      {"Learning rate", "learning rate", &StepLogged::lr, AxisScale::linear},
      {"Norm of the gradients", "norm, before clipping", &StepLogged::grad_norm,
       AxisScale::automatic},
      {"Norm of the parameters", "norm", &StepLogged::param_norm, AxisScale::linear}};
  std::vector<Html> figures;
  for (const StepPlot& plot : plots) {
    push(figures, line_chart({.title = plot.title,
                              .x_label = "step",
                              .y_label = plot.y_label,
                              .series = {over_steps(run, plot)},
                              .scale = plot.scale}));
  }
  if (!run.steps.lines().empty()) return figures;
  LineChart chart{.title = "Learning rate", .x_label = "epoch", .y_label = "learning rate"};
  chart.series.push_back(
      over_epochs(run.epochs, "learning rate", [](const EpochEnded& epoch) { return epoch.lr; }));
  push(figures, line_chart(chart));
  return figures;
}

std::vector<Html> time_figures(const RunFiles& run) {
  StackedBars bars{.title = "Time of each epoch", .x_label = "epoch", .y_label = "seconds"};
  for (const EpochEnded& epoch : run.epochs) bars.bars.push_back(std::to_string(epoch.epoch + 1));
  for (const TimingPhase& phase : events::kTimingPhases) {
    const std::array shown{&run};
    StackedBars::Part values{.name = phase_label(phase, shown)};
    for (const EpochEnded& epoch : run.epochs) values.values.push_back(epoch.timing.*phase.seconds);
    bars.parts.push_back(std::move(values));
  }
  std::vector<Html> figures;
  push(figures, stacked_bars(bars));
  LineChart chart{.title = "Throughput", .x_label = "epoch", .y_label = "samples/s"};
  chart.series.push_back({.name = "samples/s"});
  push(figures, measured(run.epochs, chart, {epoch_rate}));
  return figures;
}

std::vector<Html> utilization_figures(const RunFiles& run) {
  const auto plain = [](double Timing::*member) {
    return [member](const EpochEnded& epoch) { return epoch.timing.*member; };
  };
  const auto optional = [](std::optional<double> Timing::*member) {
    return
        [member](const EpochEnded& epoch) { return (epoch.timing.*member).value_or(std::nan("")); };
  };
  const auto chart = [&](const char* title, const char* unit, std::vector<std::string> names) {
    LineChart drawn{.title = title, .x_label = "epoch", .y_label = unit};
    for (std::string& name : names) drawn.series.push_back({.name = std::move(name)});
    return drawn;
  };
  const auto of_epochs = [&](const LineChart& drawn, const std::vector<OfEpoch>& values) {
    return measured(run.epochs, drawn, values);
  };
  return without_empty(
      {of_epochs(chart("CPU", "% of one core", {"CPU"}), {plain(&Timing::cpu_percent)}),
       of_epochs(chart("GPU", "busy, % of the time", {"GPU"}), {optional(&Timing::gpu_util)}),
       of_epochs(chart("Memory", "MB", {"host, peak", "GPU"}),
                 {plain(&Timing::rss_mb), optional(&Timing::gpu_mem_mb)}),
       of_epochs(chart("Reading from the disk", "MB/s", {"read"}), {plain(&Timing::read_mb_s)})});
}

std::vector<Html> strand_figures(const std::vector<CurveSeries>& strands, std::size_t most) {
  std::vector<std::string> names;
  for (const CurveSeries& strand : strands) {
    for (const std::string& name : metric_names(*strand.epochs)) add_new(names, name);
  }
  std::vector<Html> figures;
  for (const std::string& name : names) {
    if (figures.size() == most) break;
    LineChart chart{
        .title = name, .x_label = "epoch", .y_label = short_name(name), .scale = scale_of(name)};
    for (const CurveSeries& strand : strands) {
      Series series = without_gaps(over_epochs(*strand.epochs, strand.name, metric(name)));
      series.color = strand.color;
      series.look = strand.look;
      if (!series.x.empty()) chart.series.push_back(std::move(series));
    }
    push(figures, line_chart(chart));
  }
  return figures;
}

Html strand_throughput(const std::vector<CurveSeries>& strands) {
  LineChart chart{.title = "Throughput", .x_label = "epoch", .y_label = "samples/s"};
  for (const CurveSeries& strand : strands) {
    Series series = over_epochs(*strand.epochs, strand.name, epoch_rate);
    series.color = strand.color;
    series.look = strand.look;
    chart.series.push_back(std::move(series));
  }
  chart.y_from = 0;
  return line_chart(chart);
}

}  // namespace trainctl::report
