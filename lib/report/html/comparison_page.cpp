#include "base/strings.hpp"
#include "report/compare/comparison_gate.hpp"
#include "report/html/charts.hpp"
#include "report/html/curves.hpp"
#include "report/html/page.hpp"
#include "report/html/run_page.hpp"
#include "report/html/study_pages.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::report {
namespace {

std::vector<Strand> strands_of(const Compared& compared) {
  std::vector<Strand> strands;
  for (std::size_t g = 0; g < compared.groups.size(); ++g) {
    const Group& group = compared.groups[g];
    for (const RunFiles& run : group.runs) {
      const std::string seed = run.value("seed").value_or("?");
      const bool many = group.runs.size() > 1;
      strands.push_back({.name = many ? group.label + ", seed " + seed : group.label,
                         .epochs = &run.epochs,
                         .colour = g,
                         .look = group.runs.size() > 4 ? LineLook::faint : LineLook::solid});
    }
  }
  return strands;
}

Html config_section(const Compared& compared) {
  std::vector<Column> columns{{"key", Align::left}};
  for (const Group& group : compared.groups) columns.push_back({group.label, Align::left});
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
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? "" : metric_text(sum / static_cast<double>(values.size()));
}

std::string difference_text(const std::optional<MeanDifference>& difference) {
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

Html measures_section(const Compared& compared) {
  std::vector<Column> columns{{"measure", Align::left}, {compared.groups.front().label}};
  for (std::size_t i = 1; i < compared.groups.size(); ++i) {
    columns.push_back({compared.groups[i].label});
    columns.push_back({"against " + compared.groups.front().label});
  }
  Table table(columns);
  for (const std::string& name : measure_names(compared)) {
    const auto values = values_of(compared, name);
    const auto differences = differences_of(compared, name);
    std::vector<std::string> cells{name, mean_text(values[0])};
    for (std::size_t i = 1; i < values.size(); ++i) {
      cells.push_back(mean_text(values[i]));
      cells.push_back(difference_text(differences[i - 1]));
    }
    table.add(std::move(cells));
  }
  const bool many = std::ranges::any_of(
      compared.groups, [](const Group& group) { return group.members.size() > 1; });
  const Html note = many ? paragraph(
                               "Means over the runs of a group; in brackets Student's 95 % "
                               "interval of the difference, by pairs where the seeds are the "
                               "same.")
                         : Html();
  return note + html_table(table);
}

Html time_section(const Compared& compared) {
  StackedBars bars{.title = "Time of an epoch, without the first",
                   .x_label = "run",
                   .y_label = "seconds",
                   .bars = {},
                   .parts = {}};
  const std::vector<const RunFiles*> runs = runs_of(compared);
  for (const TimePart& part : time_parts()) bars.parts.push_back({part_name(part, runs), {}});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs) {
      if (run.epochs.empty()) continue;
      const std::span<const events::EpochEnded> all = run.epochs;
      const auto steady = all.size() > 1 ? all.subspan(1) : all;
      const events::Timing sum = sum_timing(steady);
      bars.bars.push_back(group.label);
      for (std::size_t p = 0; p < bars.parts.size(); ++p)
        bars.parts[p].values.push_back(sum.*time_parts()[p].seconds /
                                       static_cast<double>(steady.size()));
    }
  }
  std::vector<Html> figures{stacked_bars(bars), strand_throughput(strands_of(compared))};
  return cards(figures);
}

Html runs_section(const Compared& compared) {
  Table table({{"group", Align::left},
               {"run", Align::left},
               {"seed"},
               {"end", Align::left},
               {"folder", Align::left}});
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs)
      table.add({group.label, run.name, run.value("seed").value_or(""), status_of(run).text,
                 run.folder.string()});
  }
  return table.rows().empty() ? Html() : html_table(table);
}

}  // namespace

std::string comparison_page(const Compared& compared) {
  Page page;
  page.notes = machines_apart(compared);
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
                   {"config", "What was set differently", config_section(compared)},
                   {"metrics", "Loss and metrics", cards(strand_figures(strands_of(compared), 24))},
                   {"time", "Where the time went", runs ? time_section(compared) : Html()},
                   {"runs", "Runs", runs_section(compared)}};
  page.footer = "Made by trainctl compare.";
  return render(page);
}

}  // namespace trainctl::report
