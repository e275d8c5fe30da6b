#include "report/text/run_summary.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/record/run_files.hpp"

#include <cstdlib>

namespace trainctl::report {
namespace {

using events::WeightsSet;

std::string headline(const WeightsSet& weights) {
  if (weights.path.empty()) return "weights: initialized from the seed";
  const std::size_t tensors =
      weights.loaded.size() + weights.reinitialized.size() + weights.missing.size();
  return fmt::format("weights: {} of {} tensors of the model come from {}", weights.loaded.size(),
                     tensors, printable(weights.path));
}

void add(std::vector<std::string>& lines, const char* what, const std::vector<std::string>& names) {
  if (!names.empty()) lines.push_back(fmt::format("{}: {}", what, shortened(names)));
}

using Times = std::map<std::string, double>;  // self times by name

/// Returns the first cell of a line, "aten::addmm", quoted or not.
std::string first_cell(const std::string& line) {
  if (!line.starts_with('"')) return line.substr(0, line.find(','));
  return line.substr(1, line.find('"', 1) - 1);
}

/// Parses operator,device,shapes,calls,self_ms,total_ms,gflop,mb; the shapes may contain commas.
void add_line(const std::string& line, Times& on_cpu, Times& on_gpu) {
  constexpr std::size_t kCells = 8;
  constexpr std::size_t kSelfFromEnd = 4;
  const std::vector<std::string> cells = split(line, ',');
  if (cells.size() < kCells) return;
  const std::string name = first_cell(line);
  const bool is_kernel = line.find(",gpu,") != std::string::npos;
  (is_kernel ? on_gpu : on_cpu)[name] +=
      std::strtod(cells[cells.size() - kSelfFromEnd].c_str(), nullptr);
}

std::string headline(const RunRecord& record, const RunResult& ending, const Style& style) {
  const std::int64_t epochs = epochs_done(record);
  std::string reason;
  if (record.stopped_early) {
    reason = ", stopped early: " + record.stopped_early->reason;
  } else if (!record.finished.empty() &&
             record.finished.begin()->second.stop_reason == "max_time") {
    reason = ", because trainer.max_time is over";
  } else if (ending.verdict != "ok" && !ending.message.empty()) {
    reason = ": " + one_line(ending.message);
  }
  const bool ok = ending.exit_code == 0;
  return fmt::format("{} {} epoch{}, {} steps in {}{}\n",
                     paint(ok ? "Finished" : "Ended (" + ending.verdict + ")",
                           ok ? Ink::green : Ink::yellow, style),
                     epochs, plural(epochs), with_thousands(record.last_step),
                     human_duration(ending.wall_s), printable(reason));
}

std::string metrics_text(const events::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", printable(name), metric_text(value));
  return text;
}

/// Returns a text such as " (higher is better, inferred from the name)".
std::string mode_text(const BestMode& mode) {
  if (mode.name.empty()) return {};
  return fmt::format(" ({} is better{})", mode.name == "min" ? "lower" : "higher",
                     mode.inferred ? ", inferred from the name" : "");
}

std::string best_text(const Best& best, const BestMode& mode) {
  return fmt::format("{} {}{} at epoch {}{}{}", printable(best.metric), metric_text(best.value),
                     mode_text(mode), best.epoch + 1, best.checkpoint.empty() ? "" : "  ",
                     printable(best.checkpoint));
}

std::string speed_text(const RunRecord& record) {
  const auto steady = steady_epochs(record);
  const events::Timing sum = sum_timing(steady);
  const double each_s = sum.wall_s / static_cast<double>(steady.size());
  const std::string rate = fmt::format("{} samples/s in training, {} per whole epoch",
                                       rate_text(sum.samples_per_s), human_duration(each_s));
  if (steady.size() == record.epochs.size())
    return rate + " (the only epoch, which includes warm-up)";
  return rate +
         fmt::format(" (mean of {}, without the first)",
                     steady.size() == 1 ? "1 epoch" : fmt::format("{} epochs", steady.size()));
}

std::string skipped_text(const RunRecord& record) {
  const std::size_t count = record.skipped.size();
  return fmt::format("{} damaged sample{}, listed in logs/rank_0.log and replaced by other samples",
                     count, plural(count));
}

std::string first_epoch_text(const RunRecord& record, double wall_s) {
  const events::Timing& first = record.epochs.front().timing;
  std::string text = fmt::format("{}, including {} until the first batch",
                                 human_duration(first.wall_s), human_duration(first.first_batch_s));
  double other_s = wall_s - sum_timing(record.epochs).wall_s;
  if (const auto hello = record.hellos.find(0); hello != record.hellos.end()) {
    text += "; start-up: " + human_duration(hello->second.startup_s);
    other_s -= hello->second.startup_s;
  }
  return other_s > 0 ? text + "; other time outside the epochs: " + human_duration(other_s) : text;
}

std::string budget_text(const events::Timing& sum, const RunRecord& record) {
  std::string text;
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const double share = sum.*phase.seconds / sum.wall_s;
    if (!(share >= 0.005)) continue;
    text += fmt::format("{}{} {} %", text.empty() ? "" : ", ",
                        phase.seconds == &events::Timing::h2d_s     ? transfer_name(record)
                        : phase.seconds == &events::Timing::other_s ? "all other work"
                                                                    : phase.brief,
                        percent_text(share));
  }
  return text;
}

std::string text_of(const Bottleneck& found) {
  return bottleneck_text(name_of(found.limit), found.cause, found.share);
}

/// Returns the numbers that show the bottleneck; empty if the time budget is sufficient.
std::string evidence_text(const Bottleneck& found) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> texts;
  for (const Evidence& each : found.evidence) {
    if (each.in_summary && texts.size() < kMost) texts.push_back(each.text);
  }
  return join(texts, "; ");
}

std::string bottleneck_lines(const Bottleneck& found, const Style& style) {
  std::string text = fact_line("bottleneck", text_of(found), style);
  const std::string evidence = evidence_text(found);
  if (!evidence.empty()) text += fact_line("", evidence, style);
  if (!found.advice.empty()) text += fact_line("", found.advice, style);
  if (!found.setting.empty())
    text += fact_line("gain", "with this setting: " + text_of(found.gain), style);
  for (const Bottleneck& quiet : found.otherwise) {
    text += fact_line("otherwise",
                      "without other processes, the bottleneck would be " + text_of(quiet), style);
    if (!quiet.advice.empty()) text += fact_line("", quiet.advice, style);
  }
  if (found.perfect_loader) text += fact_line("loading", text_of(*found.perfect_loader), style);
  return text;
}

// Returns "a.b" for "++a.b=c".
std::string key_of(std::string_view override_text) {
  const std::size_t first = std::min(override_text.find_first_not_of("+~"), override_text.size());
  return std::string(override_text.substr(first, override_text.find('=') - first));
}

// Returns the command as typed, without its value of the key that is suggested.
std::string like_before(const Command& typed, const char* verb, const std::string& key,
                        std::initializer_list<std::string> added) {
  std::vector<std::string> words{typed.program, verb, typed.config};
  const std::string nodes = "trainer.num_nodes";
  const bool is_run = words[1] == "run";
  const bool leaves_nodes = typed.nodes > 1 && !is_run;
  for (const std::string& text : typed.overrides) {
    if (key_of(text) != key && !(leaves_nodes && key_of(text) == nodes)) words.push_back(text);
  }
  if (leaves_nodes) words.push_back(nodes + "=1");
  words.insert(words.end(), added);
  if (!typed.out.empty()) words.insert(words.end(), {"--out", typed.out});
  if (is_run) words.insert(words.end(), typed.node_flags.begin(), typed.node_flags.end());
  return shell_command(std::move(words));
}

std::string next_command(const Bottleneck& found, const BottleneckContext& context,
                         const RunResult& ending) {
  if (!ending.resume_command.empty()) return ending.resume_command;
  const std::string key = key_of(found.setting);
  if (key == "loader.num_workers" && ending.command.nodes == 1) {
    const std::string values =
        fmt::format("{},{}", context.num_workers, found.setting.substr(key.size() + 1));
    return like_before(ending.command, "bench", key, {"--workers", values});
  }
  if (!key.empty()) return like_before(ending.command, "run", key, {found.setting});
  switch (found.next) {
    case Next::more_devices: {
      const auto devices = std::max(1, context.world_size / ending.command.nodes);
      return like_before(ending.command, "bench", "trainer.devices",
                         {"--devices", fmt::format("{},{}", devices, 2 * devices)});
    }
    case Next::run_again: return like_before(ending.command, "run", "", {});
    case Next::doctor: return shell_word(ending.command.program) + " doctor";
    case Next::tune: break;
  }
  return like_before(ending.command, "tune", "", {});
}

constexpr std::size_t kShownLogLines = 12;

constexpr int kFailureLabelWidth = 9;

std::string failure_fact(const char* label, const std::string& text, const Style& style) {
  return fact_line(label, text, style, kFailureLabelWidth);
}

std::string how_it_ended(const events::RankFailure& failure, const std::string& verdict) {
  if (verdict == "hang") return "stopped answering";  // our own signal ended it
  if (failure.signal) {
    const std::string name = failure.signal_name.empty() ? fmt::format("signal {}", *failure.signal)
                                                         : failure.signal_name;
    return "was killed by " + name;
  }
  return failure.exit_code ? fmt::format("exited with code {}", *failure.exit_code)
                           : "stopped answering";
}

std::string where_text(const events::RankFailure& failure) {
  std::string text = fmt::format("at step {}", with_thousands(failure.step));
  if (!failure.phase.empty()) text += fmt::format(" ({})", failure.phase);
  return text;
}

// A lost node has no known process.
std::string process_text(const events::RankFailure& failure) {
  if (failure.host.empty()) return "not started";
  const std::string host = printable(failure.host);
  return failure.pid == 0 ? "on " + host : fmt::format("pid {} on {}", failure.pid, host);
}

std::string saved_text(const RunRecord& record, const RunResult& ending) {
  if (const auto& state = ending.checkpoint)
    return fmt::format("{} (step {}){}", printable(state->path), with_thousands(state->step),
                       state->verified ? ", verified" : "");
  std::string text;
  for (const events::CheckpointSaved& kept : kept_checkpoints(record))
    text += fmt::format("{}{} (step {})", text.empty() ? "" : ", ", printable(kept.path),
                        with_thousands(kept.global_step));
  return text.empty() ? "none: no checkpoint was written yet"
                      : text + "; weights only: a run cannot resume from it";
}

std::string restarts_text(const RunResult& ending) {
  const bool in_vain = ending.exit_code == static_cast<int>(ErrorKind::no_progress);
  return in_vain ? fmt::format(
                       "{}; the last restarts saved no newer checkpoint: do not requeue the job",
                       ending.restarts)
                 : std::to_string(ending.restarts);
}

std::string cause_text(const events::RankFailure& failure) {
  if (!failure.message.empty())
    return printable_lines(failure.message, std::string(2 + kFailureLabelWidth, ' '));
  if (failure.signal_name == "SIGKILL")
    return "the process printed nothing; if memory ran out, the kernel killed it (see dmesg)";
  return "the process printed nothing";
}

std::string tail_text(const std::string& log_tail, const Style& style) {
  std::vector<std::string> lines = split(log_tail, '\n');
  std::erase_if(lines, [](const std::string& each) { return each.empty(); });
  const std::size_t first = lines.size() - std::min(lines.size(), kShownLogLines);
  std::string text;
  for (std::size_t i = first; i < lines.size(); ++i)
    text += paint("    | ", Ink::dim, style) + clip(printable(lines[i]), style.width - 6) + '\n';
  return text;
}

}  // namespace

std::vector<std::string> weights_lines(const WeightsSet& weights) {
  std::vector<std::string> lines{headline(weights)};
  add(lines, "initialized again, because the number of outputs differs", weights.reinitialized);
  add(lines, "not in the file, initialized", weights.missing);
  add(lines, "not in the model, ignored", weights.ignored);
  if (!weights.frozen.empty())
    lines.push_back(
        fmt::format("{} parameters frozen: {}", weights.frozen.size(), shortened(weights.frozen)));
  for (const std::string& note : weights.notes) lines.push_back(printable(note));
  return lines;
}

Json weights_document(const WeightsSet& weights) {
  return joined({{{"path", or_null(weights.path)},
                  {"format", weights.path.empty() ? Json(nullptr) : Json(weights.format)}},
                 JSON_FIELDS(weights, loaded, reinitialized, missing, ignored, frozen, notes)});
}

std::string top_operator(std::string_view operators_csv) {
  Times on_cpu;
  Times on_gpu;
  const std::vector<std::string> lines = split(operators_csv, '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) add_line(lines[i], on_cpu, on_gpu);
  const Times& times = on_gpu.empty() ? on_cpu : on_gpu;
  double all = 0;
  for (const auto& [name, ms] : times) all += ms;
  if (!(all > 0)) return "";
  const auto top = std::ranges::max_element(times, {}, [](const auto& one) { return one.second; });
  return fmt::format("{} takes {} % of the time of all {}", printable(top->first),
                     percent_text(top->second / all), on_gpu.empty() ? "operators" : "kernels");
}

std::string summary_text(const RunRecord& record, const RunResult& ending, const Style& style) {
  std::string text = headline(record, ending, style);
  const BottleneckContext context = context_of(record, ending.levers);
  Bottleneck found;
  if (!record.epochs.empty()) {
    const events::Timing steady = sum_timing(steady_epochs(record));
    found = find_bottleneck(steady, context);
    if (const auto best = best_of(record))
      text += fact_line("best", best_text(*best, ending.best_mode), style);
    text += fact_line("last epoch", metrics_text(record.epochs.back().metrics), style);
    if (const auto& tested = record.evaluated)
      text += fact_line("test",
                        fmt::format("{} ({} weights)", metrics_text(tested->metrics),
                                    printable(tested->checkpoint)),
                        style);
    text += fact_line("speed", speed_text(record), style);
    text += fact_line("first epoch", first_epoch_text(record, ending.wall_s), style);
    if (steady.wall_s > 0) text += fact_line("epoch time", budget_text(steady, record), style);
    text += bottleneck_lines(found, style);
  }
  if (const std::vector<RankRow> rows = rank_rows(record); !rows.empty())
    text +=
        fact_line("ranks", ranks_verdict(rows), style) + "\n" + to_text(ranks_table(rows), style) +
        "All times are means per step. Exposed all-reduce: the wait for other ranks. Overlap: the "
        "share of the all-reduce that runs during the backward pass. Slowdown: data wait and "
        "work, compared with the median rank.\n\n";
  if (!record.skipped.empty()) text += fact_line("skipped", skipped_text(record), style);
  if (!ending.profile.empty()) text += fact_line("profile", printable(ending.profile), style);
  if (!ending.run_dir.empty()) text += fact_line("run folder", printable(ending.run_dir), style);
  return text + fact_line("next",
                          paint(printable(bounded(next_command(found, context, ending))), Ink::bold,
                                style),
                          style);
}

std::string failure_text(const RunRecord& record, const RunResult& ending, const Style& style) {
  const bool as_asked = ending.exit_code == static_cast<int>(ErrorKind::stopped);
  const std::string label =
      as_asked ? paint("stopped:", Ink::yellow, style) : paint("error:", Ink::red, style);
  std::string text;
  if (!ending.first_failure) {
    text = fmt::format("{} {}\n", label, printable_lines(ending.message));
  } else {
    const events::RankFailure& failure = *ending.first_failure;
    text = fmt::format("{} rank {} of {} {} {}\n", label, failure.rank, world_size_of(record),
                       how_it_ended(failure, ending.verdict), where_text(failure));
    text += failure_fact("cause", cause_text(failure), style);
    text += failure_fact("process", process_text(failure), style);
  }
  if (ending.restarts > 0) text += failure_fact("restarts", restarts_text(ending), style);
  if (ending.trains) text += failure_fact("saved", saved_text(record, ending), style);
  if (ending.first_failure && !ending.first_failure->log_tail.empty()) {
    text += failure_fact("log", fmt::format("end of logs/rank_{}.log:", ending.first_failure->rank),
                         style);
    text += tail_text(ending.first_failure->log_tail, style);
  }
  if (!ending.run_dir.empty()) text += failure_fact("folder", printable(ending.run_dir), style);
  if (!ending.resume_command.empty())
    text += failure_fact("next", paint(printable(ending.resume_command), Ink::bold, style), style);
  return text;
}

}  // namespace trainctl::report
