#include "report/html/run_page.hpp"

#include "report/diagnosis/bottleneck.hpp"
#include "report/html/charts.hpp"
#include "report/html/curves.hpp"
#include "report/html/plot.hpp"

namespace trainctl::report {
namespace {

std::string scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return metric_text(value.get<double>());
  return to_line(value);
}

/// Returns the numbers that show the bottleneck.
Html evidence_of(const Json& bottleneck) {
  Html items;
  const auto add = [&items](const std::string& text) {
    if (!text.empty()) items += element("li", Html(text));
  };
  const Json& evidence = member(bottleneck, "evidence");
  for (std::size_t i = 0; evidence.is_array() && i < evidence.size(); ++i)
    add(text_at(evidence[i], "text"));
  add(text_at(member(bottleneck, "perfect_loader"), "text"));
  return items.empty() ? items : element("ul", items);
}

/// Returns a command such as "trainctl run a.yaml loader.num_workers=4" for the suggested setting.
Html trial_of(const Json& bottleneck, const Json& manifest) {
  const std::string setting = text_at(bottleneck, "setting");
  if (setting.empty()) return {};
  const std::string config = text_at(manifest, "config");
  return paragraph("To try this setting:") +
         command(fmt::format("trainctl run {} {}", config.empty() ? "CONFIG" : shell_word(config),
                             shell_word(setting)));
}

Html bottleneck_of(const RunFiles& run) {
  const Json& bottleneck = member(run.result, "bottleneck");
  if (text_at(bottleneck, "verdict").empty() || run.epochs.empty()) return {};
  std::string line = bottleneck_text(text_at(bottleneck, "verdict"), text_at(bottleneck, "cause"),
                                     number_at(bottleneck, "share"));
  const std::string gain = text_at(member(bottleneck, "gain"), "text");
  const bool proposes = !text_at(bottleneck, "setting").empty();
  if (proposes && !gain.empty()) line += "; gain of the proposed setting: " + gain;
  Html content = element("p", element("strong", Html(line))) + evidence_of(bottleneck);
  const std::string diagnosis = text_at(bottleneck, "diagnosis");
  const std::string advice = text_at(bottleneck, "advice");
  if (!diagnosis.empty() && !advice.starts_with(diagnosis)) content += paragraph(diagnosis);
  if (!advice.empty()) content += paragraph(advice);
  return element("div", {{"class", "verdict"}}, content + trial_of(bottleneck, run.manifest));
}

/// Returns sums over all epochs.
Table budget_table(const RunFiles& run) {
  Table table({left("part"), "seconds", "share of the time"});
  const events::Timing sum = sum_timing(run.epochs);
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const double seconds = sum.*phase.seconds;
    if (!(seconds > 0) || !(sum.wall_s > 0)) continue;
    const std::array shown{&run};
    table.add({phase_label(phase, shown), fmt::format("{:.2f}", seconds),
               fmt::format("{:.1f} %", 100 * seconds / sum.wall_s)});
  }
  table.add({"all epochs", fmt::format("{:.2f}", sum.wall_s), "100 %"});
  return table;
}

std::string name_of(std::size_t number, const RunPageExtras& extras) {
  return number < extras.class_names.size() ? extras.class_names[number] : std::to_string(number);
}

struct Confusion {
  std::int64_t count = 0;
  std::int64_t total = 0;  // of the class
  std::size_t row = 0;
  std::size_t column = 0;
};

/// Returns the off-diagonal cells, the largest first.
std::vector<Confusion> confusions_of(const CountTable& table) {
  constexpr std::size_t kMost = 12;
  std::vector<Confusion> found;
  for (std::size_t row = 0; row < table.counts.size(); ++row) {
    std::int64_t total = 0;
    for (const std::int64_t count : table.counts[row]) total += count;
    for (std::size_t column = 0; column < table.counts[row].size(); ++column) {
      if (row != column && table.counts[row][column] > 0)
        found.push_back({table.counts[row][column], total, row, column});
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &Confusion::count);
  found.resize(std::min(found.size(), kMost));
  return found;
}

Html confused_pairs(const CountTable& table, const RunPageExtras& extras) {
  const std::vector<Confusion> pairs = confusions_of(table);
  if (pairs.empty()) return {};
  Table rows({left("class"), left("predicted"), "samples", "share of the class"});
  for (const Confusion& pair : pairs) {
    const double share = static_cast<double>(pair.count) / static_cast<double>(pair.total);
    rows.add({name_of(pair.row, extras), name_of(pair.column, extras), with_thousands(pair.count),
              fmt::format("{:.1f} %", 100 * share)});
  }
  return element("div", {{"class", "card"}},
                 element("h3", Html(table.split + ": most often confused")) + html_table(rows));
}

Html confusion_of(const CountTable& table, const RunPageExtras& extras) {
  HeatMap map{.title = fmt::format("{}, epoch {}", table.split, table.epoch),
              .row_label = "class",
              .column_label = "predicted",
              .counts = table.counts};
  for (std::size_t i = 0; i < table.counts.size(); ++i) map.names.push_back(name_of(i, extras));
  return heat_map(map);
}

Html tile_of(const WorstSample& sample) {
  std::string caption = fmt::format("{}, predicted as {}", sample.label, sample.predicted);
  if (sample.probability)
    caption += fmt::format(" (p of {}: {})", sample.label, metric_text(*sample.probability));
  if (sample.loss) caption += ", loss " + metric_text(*sample.loss);
  Html content;
  if (!sample.png.empty())
    content += element("img", {{"src", "data:image/png;base64," + base64(sample.png)},
                               {"alt", sample.name + ": " + caption},
                               {"loading", "lazy"}});
  return element("figure",
                 content + element("figcaption", element("strong", Html(sample.name)) +
                                                     element("br", Attributes{}) + caption));
}

/// Adds the members of an object as rows with their paths: "hardware.cpu".
void add_rows(Table& table, const std::string& path, const Json& value) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items())
      add_rows(table, path.empty() ? key : path + "." + key, inner);
    return;
  }
  if (value.is_null()) return;
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : " ") + scalar_text(item);
    if (!text.empty()) table.add({path, text});
    return;
  }
  table.add({path, scalar_text(value)});
}

/// Highlights YAML: comments with the origin of values are dimmed. A '#' in quotes is not a
/// comment.
Html lit_config(const std::string& text) {
  Html lines;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t at = line.rfind("  # ");
    if (at == std::string::npos) {
      lines += Html(line + "\n");
    } else {
      lines +=
          Html(line.substr(0, at)) + element("span", {{"class", "origin"}}, line.substr(at) + "\n");
    }
  }
  return element("pre", {{"tabindex", "0"}}, lines);
}

// The sections of a run's page. Each is empty if the run has no data for it.

Html ending_section(const RunFiles& run) {
  Html content;
  const std::string message = text_at(run.result, "message");
  const bool is_bad = status_of(run).mood == Mood::bad;
  if (!message.empty()) content += element("p", {{"class", is_bad ? "note bad" : "note"}}, message);
  const Json& failure = member(run.result, "first_failure");
  if (failure.is_object()) {
    Table table({left("first failure"), left("")});
    add_rows(table, "", failure);
    content += html_table(table);
  }
  const std::string resume = text_at(run.result, "resume_command");
  if (!resume.empty()) content += paragraph("Resume the run with:") + command(resume);
  return content;
}

Html time_section(const RunFiles& run) {
  std::vector<Html> figures = time_figures(run);
  if (figures.empty()) return bottleneck_of(run);
  return bottleneck_of(run) + cards(figures) +
         folded("Time of all epochs together", html_table(budget_table(run)));
}

Html steps_section(const RunFiles& run) {
  Html content = cards(step_figures(run));
  if (!content.empty() && run.steps.kept_every() > 1)
    content += paragraph(fmt::format("1 in {} logged steps is shown.", run.steps.kept_every()));
  return content;
}

Html confusion_section(const RunFiles& run, const RunPageExtras& extras) {
  std::vector<Html> figures;
  for (const CountTable& table : run.tables) {
    for (Html figure : {confusion_of(table, extras), confused_pairs(table, extras)}) {
      if (!figure.empty()) figures.push_back(std::move(figure));
    }
  }
  return cards(figures);
}

Html worst_section(const RunPageExtras& extras) {
  if (extras.worst.empty()) return {};
  Html tiles;
  for (const WorstSample& sample : extras.worst) tiles += tile_of(sample);
  return paragraph("The samples with the worst predictions, from " + extras.worst_source + ".") +
         element("div", {{"class", "tiles"}}, tiles);
}

/// Draws the legend of masks in the colors that lib/train/measure/sample_grid.cpp has used.
Html samples_section(const RunFiles& run, const RunPageExtras& extras) {
  if (run.samples.empty()) return {};
  std::string caption = "What the model has made after the last epoch.";
  std::vector<LegendEntry> classes;
  const std::string task = run.value("task.type").value_or("auto");
  if (task == "auto" || task == "segmentation") {
    caption =
        "Samples of dataset.val after the last epoch. From left to right: the image, the predicted "
        "classes, and the classes of the mask, which is white where pixels do not count.";
    for (const std::string& name : extras.class_names) classes.push_back({name, classes.size()});
  }
  const Html image = element("img", {{"src", "data:image/png;base64," + base64(run.samples)},
                                     {"alt", "samples of the model"}});
  return paragraph(caption) +
         element("div", {{"class", "light card samples"}}, legend(classes) + image);
}

Html ranks_section(const RunFiles& run) {
  if (run.ranks.empty()) return {};
  return paragraph(ranks_verdict(run.ranks)) + html_table(ranks_table(run.ranks));
}

Html epochs_section(const RunFiles& run) {
  constexpr std::size_t kMostRows = 500;
  if (run.epochs.empty()) return {};
  const std::vector<std::string> names = metric_names(run.epochs);
  std::vector<Column> columns{"epoch", "step"};
  columns.insert(columns.end(), names.begin(), names.end());
  columns.insert(columns.end(), {"lr", "time", "samples/s"});
  Table table(columns);
  const std::size_t first = run.epochs.size() > kMostRows ? run.epochs.size() - kMostRows : 0;
  for (std::size_t i = first; i < run.epochs.size(); ++i) {
    const events::EpochEnded& epoch = run.epochs[i];
    std::vector<std::string> cells{std::to_string(epoch.epoch + 1),
                                   with_thousands(epoch.global_step)};
    for (const std::string& name : names) {
      const auto value = events::find_metric(epoch.metrics, name);
      cells.push_back(value ? metric_text(*value) : "");
    }
    cells.insert(cells.end(), {exact_text(epoch.lr), human_duration(epoch.timing.wall_s),
                               rate_text(epoch.timing.samples_per_s)});
    table.add(std::move(cells));
  }
  return folded(first == 0 ? "Every epoch" : fmt::format("The last {} epochs", kMostRows),
                html_table(table));
}

Html checkpoints_section(const RunFiles& run) {
  if (run.checkpoints.empty()) return {};
  Table table({left("checkpoint"), "size"});
  for (const CheckpointName& one : run.checkpoints) table.add({one.name, human_bytes(one.bytes)});
  return html_table(table);
}

Html config_section(const RunFiles& run) {
  if (run.config.empty()) return {};
  return paragraph("The resolved configuration. A comment after each value names its source.") +
         folded("config.resolved.yaml", lit_config(run.config));
}

Html manifest_section(const RunFiles& run) {
  if (!run.manifest.is_object()) return {};
  Table table({left("key"), left("value")});
  add_rows(table, "", run.manifest);
  return folded("Versions, machine, command, data", html_table(table));
}

std::string duration_or_empty(double seconds) {
  return std::isfinite(seconds) && seconds >= 0 ? human_duration(seconds) : "";
}

/// Returns the rate from result.json, or else from the epochs.
double run_rate(const RunFiles& run) {
  const double recorded = number_at(run.result, "samples_per_s");
  if (recorded > 0 || run.epochs.empty()) return recorded;
  return sum_timing(without_first<events::EpochEnded>(run.epochs)).samples_per_s;
}

Fact best_fact(const RunFiles& run) {
  const Json& best = member(run.result, "best");
  const std::string metric = text_at(best, "metric");
  if (metric.empty()) return {"best", ""};
  return {"best " + metric, metric_text(number_at(best, "value")),
          fmt::format("epoch {}", exact_text(number_at(best, "epoch")))};
}

Fact epochs_fact(const RunFiles& run) {
  const std::int64_t epochs = run.epochs.empty() ? 0 : run.epochs.back().epoch + 1;
  const std::string planned = run.value("trainer.max_epochs").value_or("");
  const double steps = number_at(run.result, "steps");
  const bool is_open = status_of(run).mood == Mood::waiting;
  const std::string of = is_open && !planned.empty() && planned != "~" ? " of " + planned : "";
  std::string remark;
  if (steps > 0 && steps < 9e15) remark = with_thousands(static_cast<long long>(steps)) + " steps";
  return {"epochs", std::to_string(epochs) + of, remark};
}

std::string device_of(const RunFiles& run) {
  const Json& gpus = member(member(run.manifest, "hardware"), "gpus");
  const std::string asked = run.value("trainer.accelerator").value_or("");
  if (gpus.is_array() && !gpus.empty() && asked != "cpu")
    return gpus.front().is_string() ? gpus.front().get<std::string>()
                                    : text_at(gpus.front(), "name");
  return text_at(member(run.manifest, "hardware"), "cpu");
}

std::vector<Fact> facts_of(const RunFiles& run) {
  const double world = number_at(run.result, "world_size");
  const double rate = run_rate(run);
  const double restarts = number_at(run.result, "restarts");
  return {best_fact(run),
          epochs_fact(run),
          {"wall time", status_of(run).mood == Mood::waiting
                            ? ""
                            : duration_or_empty(number_at(run.result, "wall_s"))},
          {"samples/s", rate > 0 ? rate_text(rate) : "", "without the first epoch"},
          {"device", device_of(run), text_at(member(run.manifest, "hardware"), "host")},
          {"processes", world > 1 ? exact_text(world) : ""},
          {"restarts", restarts > 0 ? exact_text(restarts) : ""},
          {"precision", run.value("trainer.precision").value_or("")},
          {"seed", run.value("seed").value_or("")}};
}

}  // namespace

Status status_of(const RunFiles& run) {
  const std::string verdict = text_at(run.result, "verdict");
  if (verdict.empty() || verdict == "unfinished") return {"running, or killed", Mood::waiting};
  const double code = number_at(run.result, "exit_code");
  if (code == 0) return {verdict, Mood::good};
  return {fmt::format("{} (exit {})", verdict, std::isfinite(code) ? exact_text(code) : "?"),
          Mood::bad};
}

std::string run_page(const RunFiles& run, const RunPageExtras& extras) {
  Page page;
  page.title = run.name;
  page.status = status_of(run);
  const std::string started = text_at(run.result, "started_at");
  page.subtitle = run.folder.string() + (started.empty() ? "" : ", started " + started);
  page.facts = facts_of(run);
  page.notes = run.notes;
  page.sections = {{"end", "Result", ending_section(run)},
                   {"time", "Time budget", time_section(run)},
                   {"metrics", "Loss and metrics", cards(metric_figures(run))},
                   {"steps", "Steps", steps_section(run)},
                   {"utilization", "Utilization", cards(utilization_figures(run))},
                   {"confusion", "Confusion matrix", confusion_section(run, extras)},
                   {"worst", "Worst predictions", worst_section(extras)},
                   {"samples", "Samples", samples_section(run, extras)},
                   {"ranks", "Processes", ranks_section(run)},
                   {"epochs", "Epochs", epochs_section(run)},
                   {"checkpoints", "Checkpoints", checkpoints_section(run)},
                   {"config", "Configuration", config_section(run)},
                   {"manifest", "Manifest", manifest_section(run)}};
  page.footer = "Generated by trainctl " + text_at(run.manifest, "version") +
                " from the files in the run folder; regenerate it with: trainctl report " +
                shell_word(run.folder.string());
  return render(page);
}

}  // namespace trainctl::report
