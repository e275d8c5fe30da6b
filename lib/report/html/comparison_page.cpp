#include "report/html/comparison_page.hpp"

#include "report/html/charts.hpp"
#include "report/html/curves.hpp"
#include "report/html/page.hpp"
#include "report/html/run_page.hpp"

namespace trainctl::report {
namespace {

std::vector<CurveSeries> strands_of(const RunComparison& compared) {
  std::vector<CurveSeries> strands;
  for (std::size_t g = 0; g < compared.groups.size(); ++g) {
    const Group& group = compared.groups[g];
    for (const RunFiles& run : group.runs) {
      const std::string seed = run.value("seed").value_or("?");
      const bool many = group.runs.size() > 1;
      strands.push_back({.name = many ? group.label + ", seed " + seed : group.label,
                         .epochs = &run.epochs,
                         .color = g,
                         .look = group.runs.size() > 4 ? LineLook::faint : LineLook::solid});
    }
  }
  return strands;
}

Html config_section(const RunComparison& compared) {
  std::vector<Column> columns{left("key")};
  for (const Group& group : compared.groups) columns.push_back(left(group.label));
  Table table(columns);
  for (const ConfigDifference& difference : config_differences(compared)) {
    std::vector<std::string> cells{difference.key};
    cells.insert(cells.end(), difference.values.begin(), difference.values.end());
    table.add(std::move(cells));
  }
  if (compared.kind != "runs") return {};
  return table.rows().empty() ? paragraph("The configs are the same.") : html_table(table);
}

std::string mean_text(const std::vector<double>& values) {
  return values.empty() ? "" : metric_text(mean(values));
}

std::string difference_cell(const std::optional<MeanDifference>& difference) {
  if (!difference) return "";
  std::string text = metric_text(difference->difference);
  if (difference->difference > 0) text = "+" + text;
  if (difference->ci95)
    text += fmt::format(" [{}, {}]", metric_text(difference->ci95->low),
                        metric_text(difference->ci95->high));
  if (difference->base != 0 && std::isfinite(difference->difference))
    text += fmt::format(" ({:+.1f} %)", 100 * difference->difference / std::abs(difference->base));
  return text;
}

Html measures_section(const RunComparison& compared) {
  std::vector<Column> columns{left("measure"), {compared.groups.front().label}};
  for (std::size_t i = 1; i < compared.groups.size(); ++i) {
    columns.push_back({compared.groups[i].label});
    columns.push_back({"compared with " + compared.groups.front().label});
  }
  Table table(columns);
  for (const std::string& name : measure_names(compared)) {
    const auto values = values_of(compared, name);
    const auto differences = differences_of(compared, name);
    std::vector<std::string> cells{name, mean_text(values[0])};
    for (std::size_t i = 1; i < values.size(); ++i) {
      cells.push_back(mean_text(values[i]));
      cells.push_back(difference_cell(differences[i - 1]));
    }
    table.add(std::move(cells));
  }
  const bool many = std::ranges::any_of(
      compared.groups, [](const Group& group) { return group.members.size() > 1; });
  const Html note = many ? paragraph(
                               "Means over the runs of a group. In brackets: 95 % confidence "
                               "interval of the difference (Student's t; from pairs of runs if "
                               "the groups have the same seeds).")
                         : Html();
  return note + html_table(table);
}

Html time_section(const RunComparison& compared) {
  StackedBars bars{
      .title = "Time of an epoch, without the first", .x_label = "run", .y_label = "seconds"};
  const std::vector<const RunFiles*> runs = runs_of(compared);
  for (const events::TimingPhase& phase : events::kTimingPhases)
    bars.parts.push_back({phase_label(phase, runs), {}});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs) {
      if (run.epochs.empty()) continue;
      const auto steady = without_first<events::EpochEnded>(run.epochs);
      const events::Timing sum = sum_timing(steady);
      bars.bars.push_back(group.label);
      for (std::size_t p = 0; p < bars.parts.size(); ++p)
        bars.parts[p].values.push_back(sum.*events::kTimingPhases[p].seconds /
                                       static_cast<double>(steady.size()));
    }
  }
  std::vector<Html> figures{stacked_bars(bars), strand_throughput(strands_of(compared))};
  return cards(figures);
}

Html runs_section(const RunComparison& compared) {
  Table table({left("group"), left("run"), "seed", left("end"), left("folder")});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs)
      table.add({group.label, run.name, run.value("seed").value_or(""), status_of(run).text,
                 run.folder.string()});
  }
  return table.rows().empty() ? Html() : html_table(table);
}

}  // namespace

std::string comparison_page(const RunComparison& compared) {
  Page page;
  page.notes = machine_warnings(compared);
  std::vector<std::string> labels;
  for (const Group& group : compared.groups) {
    labels.push_back(group.label);
    for (const RunFiles& run : group.runs) {
      for (const std::string& note : run.notes) page.notes.push_back(group.label + ": " + note);
    }
  }
  page.title = join(labels, " and ");
  page.subtitle = fmt::format("comparison of {} {}", compared.groups.size(),
                              compared.kind == "runs" ? "runs or groups of runs" : "benches");
  const bool runs = compared.kind == "runs";
  page.sections = {{"measures", "Results", measures_section(compared)},
                   {"config", "Different settings", config_section(compared)},
                   {"metrics", "Loss and metrics", cards(strand_figures(strands_of(compared), 24))},
                   {"time", "Time of an epoch", runs ? time_section(compared) : Html()},
                   {"runs", "Runs", runs_section(compared)}};
  page.footer = "Generated by trainctl compare.";
  return render(page);
}

}  // namespace trainctl::report
