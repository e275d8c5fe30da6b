#include "report/text/top.hpp"

#include "report/text/progress_bar.hpp"
#include "report/text/table.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

constexpr int kBar = 20;
constexpr int kSpark = 48;
constexpr double kSilent = 5;  // seconds without a heartbeat after which the column is shown
constexpr const char* kUnknown = "-";

template <class Text>
std::string text_or_dash(const std::optional<double>& value, const Text& text) {
  return value && std::isfinite(*value) ? text(*value) : std::string(kUnknown);
}

std::string usage_text(double value) { return fmt::format("{:.0f}%", value); }

std::string state_line(const TopView& view, const Style& style) {
  const std::string where =
      view.host.empty() ? "" : fmt::format(", pid {} on {}", view.pid, printable(view.host));
  const std::string since = view.since.empty() ? "" : ", since " + printable(view.since);
  switch (view.state) {
    case TopState::running: return paint("running", Ink::green, style) + where + since;
    case TopState::elsewhere:
      return paint("on another host", Ink::yellow, style) + where + since +
             ": only data from the files of the run is shown";
    case TopState::gone:
      return paint("gone", Ink::red, style) + where +
             ": its process has exited, but recorded no result";
    case TopState::ended: break;
  }
  const bool well = view.exit_code == 0;
  return paint(printable(view.verdict), well ? Ink::green : Ink::red, style) +
         (view.exit_code ? fmt::format(", exit code {}", *view.exit_code) : "") +
         (view.message.empty() ? "" : ": " + one_line(view.message));
}

/// Returns the current epoch, counted from 1, or the last epoch of a run that has ended. A failed
/// run may have ended in the epoch after its complete epochs.
std::int64_t current_epoch(const TopView& view) {
  if (view.state != TopState::ended) return view.epoch + 1;
  const bool is_cut_short = view.exit_code != 0 && view.steps_per_epoch > 0 &&
                            view.step > view.epoch * view.steps_per_epoch;
  return std::max<std::int64_t>(1, view.epoch + (is_cut_short ? 1 : 0));
}

std::string progress_line(const TopView& view, const Style& style) {
  std::string line = fmt::format("epoch {}", current_epoch(view));
  const std::int64_t total = view.max_epochs * view.steps_per_epoch;
  if (view.max_epochs > 0) line += fmt::format("/{}", view.max_epochs);
  line += fmt::format("  step {}", with_thousands(view.step));
  if (total <= 0) return line;
  const double share =
      std::clamp(static_cast<double>(view.step) / static_cast<double>(total), 0.0, 1.0);
  return line + fmt::format("/{}  {}% |{}|", with_thousands(total), percent_text(share),
                            bar_text(share, kBar, style.glyphs));
}

std::string pace_line(const TopView& view) {
  std::string line =
      fmt::format("{} steps/s  {} samples/s", text_or_dash(view.steps_per_s, rate_text),
                  text_or_dash(view.samples_per_s, rate_text));
  if (view.data_wait_share)
    line += fmt::format("  {}% of the time waiting for data", percent_text(*view.data_wait_share));
  if (view.eta_s && view.state == TopState::running)
    line += fmt::format("  about {} left", human_duration(*view.eta_s));
  return line;
}

std::string loss_line(const TopView& view, const Style& style) {
  std::string line = fmt::format(
      "loss {}  {}", metric_text(view.losses.back()),
      sparkline(view.losses, style.glyphs,
                {.width = static_cast<std::size_t>(std::clamp(style.width - 40, 8, kSpark))}));
  if (view.lr) line += "  lr " + exact_text(*view.lr);
  return line;
}

std::string metrics_line(const TopView& view) {
  std::string line = fmt::format("epoch {}:", view.epoch);
  for (const auto& [name, value] : view.metrics)
    line += fmt::format("  {} {}", printable(name), metric_text(value));
  return line;
}

Table ranks_table(const TopView& view) {
  Table table({"rank", "pid", left("phase"), "step", "steps/s", "CPU", "memory", "silent for"});
  for (const TopRank& rank : view.ranks) {
    const bool silent = rank.idle_s && *rank.idle_s >= kSilent;
    table.add({std::to_string(rank.rank), std::to_string(rank.pid),
               rank.phase.empty() ? kUnknown : rank.phase,
               rank.step < 0 ? kUnknown : with_thousands(rank.step),
               text_or_dash(rank.steps_per_s, rate_text),
               text_or_dash(rank.cpu_percent, usage_text), human_bytes(rank.rss_bytes),
               silent ? human_duration(*rank.idle_s) : ""});
  }
  return table;
}

std::string gpu_line(const TopGpu& gpu) {
  return fmt::format("GPU {}  {}  {}  {} of {}", gpu.index, printable(gpu.name),
                     text_or_dash(gpu.percent, usage_text), human_bytes(gpu.used_bytes),
                     human_bytes(gpu.total_bytes));
}

std::vector<std::string> lines_of(const TopView& view, const Style& style) {
  std::vector<std::string> lines{
      paint(printable(view.name), Ink::bold, style) + "  " + printable(view.run_dir),
      state_line(view, style), progress_line(view, style)};
  if (view.state != TopState::ended) lines.push_back(pace_line(view));
  if (!view.losses.empty()) lines.push_back(loss_line(view, style));
  if (!view.metrics.empty()) lines.push_back(metrics_line(view));
  if (const auto& saved = view.checkpoint)
    lines.push_back(fmt::format("checkpoint {}, step {}, {} ago", printable(saved->name),
                                with_thousands(saved->step), human_duration(saved->age_s)));
  if (!view.ranks.empty()) {
    lines.emplace_back();
    std::string table = to_text(ranks_table(view), style);
    if (table.ends_with('\n')) table.pop_back();
    for (std::string& line : split(table, '\n')) lines.push_back(std::move(line));
  }
  for (const TopGpu& gpu : view.gpus) lines.push_back(gpu_line(gpu));
  if (!view.warnings.empty()) lines.emplace_back();
  for (const std::string& warning : view.warnings)
    lines.push_back(clip(printable(warning), style.width));
  return lines;
}

Json rank_json(const TopRank& rank) {
  return joined({JSON_FIELDS(rank, rank, pid),
                 {{"phase", or_null(rank.phase)},
                  {"step", rank.step < 0 ? Json(nullptr) : Json(rank.step)},
                  {"steps_per_s", json_value(rank.steps_per_s)},
                  {"silent_s", json_value(rank.idle_s)}},
                 JSON_FIELDS(rank, cpu_percent, rss_bytes)});
}

Json known(std::int64_t value) { return value > 0 ? Json(value) : Json(nullptr); }

}  // namespace

std::string top_text(const TopView& view, const Style& style, int height) {
  std::vector<std::string> lines = lines_of(view, style);
  if (height > 0 && std::ssize(lines) > height) {
    const auto kept = static_cast<std::size_t>(std::max(height - 1, 0));
    const std::size_t left_out = lines.size() - kept;
    lines.resize(kept);
    lines.push_back(fmt::format("... {} more lines", left_out));
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Json top_json(const TopView& view) {
  return joined(
      {{{"schema", "trainctl.top/2"}},
       JSON_FIELDS(view, run_dir, name, state),
       {{"host", or_null(view.host)},
        {"pid", known(view.pid)},
        {"since", or_null(view.since)},
        {"epoch", current_epoch(view)},
        {"epochs_done", view.epoch},
        {"max_epochs", known(view.max_epochs)},
        {"steps_per_epoch", known(view.steps_per_epoch)}},
       JSON_FIELDS(view, step, steps_per_s, samples_per_s, eta_s, data_wait_share, lr, losses,
                   metrics),
       {{"ranks", json_list(view.ranks, rank_json)},
        {"gpus", json_list(view.gpus, JSON_OF(index, name, percent, used_bytes, total_bytes))},
        {"checkpoint", or_null(view.checkpoint, JSON_OF(name, step, age_s))},
        {"warnings", view.warnings},
        {"verdict", or_null(view.verdict)},
        {"exit_code", or_null(view.exit_code)},
        {"message", or_null(view.message)}}});
}

}  // namespace trainctl::report
