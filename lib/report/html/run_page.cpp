#include "report/html/run_page.hpp"

#include "base/strings.hpp"
#include "report/html/curves.hpp"
#include "report/html/page.hpp"
#include "report/html/run_sections.hpp"
#include "report/text/format.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::report {
namespace {

Mood mood_of(RunStatus::Kind kind) {
  switch (kind) {
    case RunStatus::Kind::good: return Mood::good;
    case RunStatus::Kind::bad: return Mood::bad;
    case RunStatus::Kind::open: return Mood::waiting;
  }
  return Mood::waiting;
}

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) && seconds >= 0 ? human_duration(seconds) : "";
}

/// Of result.json, else of the epochs.
double rate_of(const RunFiles& run) {
  const double told = number_at(run.result, "samples_per_s");
  if (told > 0 || run.epochs.empty()) return told;
  const std::span<const events::EpochEnded> all = run.epochs;
  return sum_timing(all.size() > 1 ? all.subspan(1) : all).samples_per_s;
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
  const bool is_open = status_of(run).kind == RunStatus::Kind::open;
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
  const double rate = rate_of(run);
  const double restarts = number_at(run.result, "restarts");
  return {best_fact(run),
          epochs_fact(run),
          {"wall time", status_of(run).kind == RunStatus::Kind::open
                            ? ""
                            : seconds_text(number_at(run.result, "wall_s"))},
          {"samples/s", rate > 0 ? rate_text(rate) : "", "without the first epoch"},
          {"device", device_of(run), text_at(member(run.manifest, "hardware"), "host")},
          {"processes", world > 1 ? exact_text(world) : ""},
          {"restarts", restarts > 0 ? exact_text(restarts) : ""},
          {"precision", run.value("trainer.precision").value_or("")},
          {"seed", run.value("seed").value_or("")}};
}

}  // namespace

RunStatus status_of(const RunFiles& run) {
  const std::string verdict = text_at(run.result, "verdict");
  if (verdict.empty() || verdict == "unfinished")
    return {"running, or killed", RunStatus::Kind::open};
  const double code = number_at(run.result, "exit_code");
  if (code == 0) return {verdict, RunStatus::Kind::good};
  return {fmt::format("{} (exit {})", verdict, std::isfinite(code) ? exact_text(code) : "?"),
          RunStatus::Kind::bad};
}

std::string run_page(const RunFiles& run, const RunPageExtras& extras) {
  Page page;
  page.title = run.name;
  const RunStatus status = status_of(run);
  page.status = Status{status.text, mood_of(status.kind)};
  const std::string started = text_at(run.result, "started_at");
  page.subtitle = run.folder.string() + (started.empty() ? "" : ", started " + started);
  page.facts = facts_of(run);
  page.notes = run.notes;
  page.sections = {{"end", "How it ended", ending_section(run)},
                   {"time", "Where the time went", time_section(run)},
                   {"metrics", "Loss and metrics", cards(metric_figures(run))},
                   {"steps", "Steps", steps_section(run)},
                   {"utilisation", "Utilisation", cards(utilisation_figures(run))},
                   {"confusion", "Which class was called what", confusion_section(run, extras)},
                   {"worst", "Worst predictions", worst_section(extras)},
                   {"ranks", "Processes", ranks_section(run)},
                   {"epochs", "Epochs", epochs_section(run)},
                   {"checkpoints", "Checkpoints", checkpoints_section(run)},
                   {"config", "Configuration", config_section(run)},
                   {"manifest", "Manifest", manifest_section(run)}};
  page.footer = "Made by trainctl " + text_at(run.manifest, "version") +
                " of the files in the run folder; made again by: trainctl report " +
                shell_word(run.folder.string());
  return render(page);
}

}  // namespace trainctl::report
