#include "base/bounded_text.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/text/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::report {
namespace {

constexpr std::size_t kTailLines = 12;

constexpr int kLabelWidth = 9;

/// The indent of the lines of a fact after the first.
std::string fact_indent() { return std::string(2 + kLabelWidth, ' '); }

std::string fact(const char* label, const std::string& text, const Style& style) {
  return "  " + paint(pad(label, kLabelWidth, Align::left), Ink::cyan, style) + text + '\n';
}

std::string how_it_ended(const FirstFailure& failure, const std::string& verdict) {
  if (verdict == "hang") return "stopped answering";  // what ended it was our own signal
  if (failure.signal) {
    const std::string name = failure.signal_name.empty() ? fmt::format("signal {}", *failure.signal)
                                                         : failure.signal_name;
    return "was ended by " + name;
  }
  return failure.exit_code ? fmt::format("exited with code {}", *failure.exit_code)
                           : "stopped answering";
}

std::string where_text(const FirstFailure& failure) {
  std::string text = fmt::format("at step {}", with_thousands(failure.step));
  if (!failure.phase.empty()) text += fmt::format(" ({})", failure.phase);
  return text;
}

// What a lost node has not told is not known.
std::string process_text(const FirstFailure& failure) {
  if (failure.host.empty()) return "not started";
  const std::string host = printable(failure.host);
  return failure.pid == 0 ? "on " + host : fmt::format("pid {} on {}", failure.pid, host);
}

std::string saved_text(const RunRecord& record, const Ending& ending) {
  if (const auto& state = ending.checkpoint) {
    return fmt::format("{} (step {}){}", printable(state->path), with_thousands(state->step),
                       state->verified ? ", verified" : "");
  }
  std::string text;
  for (const events::CheckpointSaved& kept : kept_checkpoints(record)) {
    text += fmt::format("{}{} (step {})", text.empty() ? "" : ", ", printable(kept.path),
                        with_thousands(kept.global_step));
  }
  return text.empty() ? "nothing: no checkpoint was written yet"
                      : text + "; weights only, not resumable";
}

std::string restarts_text(const Ending& ending) {
  const bool in_vain = ending.exit_code == static_cast<int>(ErrorKind::no_progress);
  return in_vain
             ? fmt::format("{}, and the last ones brought no newer checkpoint: not to be requeued",
                           ending.restarts)
             : std::to_string(ending.restarts);
}

std::string cause_text(const FirstFailure& failure) {
  if (!failure.message.empty()) return printable_lines(failure.message, fact_indent());
  if (failure.signal_name == "SIGKILL")
    return "it said nothing; the kernel kills so when memory runs out (see dmesg)";
  return "it said nothing";
}

std::string tail_text(const std::string& log_tail, const Style& style) {
  std::vector<std::string> lines = split(log_tail, '\n');
  std::erase_if(lines, [](const std::string& each) { return each.empty(); });
  const std::size_t first = lines.size() - std::min(lines.size(), kTailLines);
  std::string text;
  for (std::size_t i = first; i < lines.size(); ++i) {
    text += paint("    | ", Ink::dim, style) + clip(printable(lines[i]), style.width - 6) + '\n';
  }
  return text;
}

}  // namespace

std::string failure_text(const RunRecord& record, const Ending& ending, const Style& style) {
  const bool as_asked = ending.exit_code == static_cast<int>(ErrorKind::stopped);
  const std::string label =
      as_asked ? paint("stopped:", Ink::yellow, style) : paint("error:", Ink::red, style);
  std::string text;
  if (!ending.first_failure) {
    text = fmt::format("{} {}\n", label, printable_lines(ending.message));
  } else {
    const FirstFailure& failure = *ending.first_failure;
    text = fmt::format("{} rank {} of {} {} {}\n", label, failure.rank, world_size_of(record),
                       how_it_ended(failure, ending.verdict), where_text(failure));
    text += fact("cause", cause_text(failure), style);
    text += fact("process", process_text(failure), style);
  }
  if (ending.restarts > 0) text += fact("restarts", restarts_text(ending), style);
  if (ending.trains) text += fact("saved", saved_text(record, ending), style);
  if (ending.first_failure && !ending.first_failure->log_tail.empty()) {
    text += fact("log", fmt::format("end of logs/rank_{}.log:", ending.first_failure->rank), style);
    text += tail_text(ending.first_failure->log_tail, style);
  }
  if (!ending.run_dir.empty()) text += fact("folder", printable(ending.run_dir), style);
  if (!ending.resume_command.empty()) {
    text += fact("next", paint(printable(ending.resume_command), Ink::bold, style), style);
  }
  return text;
}

}  // namespace trainctl::report
