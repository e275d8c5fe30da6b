#include "launch/verdict.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <iterator>
#include <tuple>

namespace trainctl::launch {
namespace {

constexpr int code_of(ErrorKind kind) { return static_cast<int>(kind); }

constexpr int kUnexpected = code_of(ErrorKind::unexpected);
constexpr int kRankFailed = code_of(ErrorKind::rank_failed);

// Codes that a worker may end the job with: what they name would repeat. Kind 1 counts only with a
// report, since any program exits with 1.
bool ends_job_with_itself(int code) {
  constexpr std::array kCodes{ErrorKind::config, ErrorKind::diverged,   ErrorKind::hang,
                              ErrorKind::data,   ErrorKind::checkpoint, ErrorKind::resource};
  return std::ranges::any_of(kCodes, [&](ErrorKind kind) { return code_of(kind) == code; });
}

int kind_of(const RankEnd& end) {
  if (end.report) {
    return ends_job_with_itself(end.report->kind) || end.report->kind == kUnexpected
               ? end.report->kind
               : kRankFailed;
  }
  return end.exit_code && ends_job_with_itself(*end.exit_code) ? *end.exit_code : kRankFailed;
}

std::string one_line(const std::string& text) {
  std::string line;
  for (const std::string& part : split(text, '\n')) {
    if (!line.empty() && !part.empty()) line += " | ";
    line += printable(part);
  }
  return line;
}

std::string sentence(const RankEnd& end) {
  if (end.report) return one_line(end.report->message);
  if (end.signal) {
    const char* core = end.dumped_core ? " (core dumped)" : "";
    return fmt::format("it was killed by {}{}{}", signal_name(*end.signal), core, end.memory_hint);
  }
  if (end.exit_code == 0) return "it ended without saying that it had finished";
  if (end.exit_code)
    return fmt::format("it exited with code {} and said no reason", *end.exit_code);
  return "it could not be ended: the kernel keeps it waiting, often for a disk or network file "
         "system";
}

RankFailure failure_of(const RankEnd& end, const std::string& host) {
  RankFailure failure;
  failure.rank = end.rank;
  failure.host = host;
  failure.pid = end.pid;
  failure.signal = end.signal;
  if (end.signal) failure.signal_name = signal_name(*end.signal);
  failure.exit_code = end.exit_code;
  failure.step = end.step;
  failure.phase = end.phase;
  failure.kind = kind_of(end);
  failure.message = sentence(end);
  return failure;
}

bool was_killed_by_others(const RankEnd& end) { return end.signal == SIGKILL && !end.killed_by_us; }

// A rank that lost its peer reports that first when the kernel takes longer to bury the peer: such
// a report gives way to what killed the peer.
std::size_t first_cause(const std::vector<RankEnd>& failures) {
  const RankEnd& first = failures.front();
  const bool lost_peer = first.report && kind_of(first) == kRankFailed;
  const bool may_be_consequence =
      lost_peer || (!first.signal && kind_of(first) == kUnexpected) ||
      (!first.report && first.exit_code && kind_of(first) == kRankFailed);
  for (std::size_t i = 1; i < failures.size(); ++i) {
    const bool reports_lost_peer = failures[i].report && kind_of(failures[i]) == kRankFailed;
    if (lost_peer && !reports_lost_peer) return i;
    if (may_be_consequence && was_killed_by_others(failures[i])) return i;
  }
  return 0;
}

std::string verdict_of(int code) {
  switch (static_cast<ErrorKind>(code)) {
    case ErrorKind::diverged: return "diverged";
    case ErrorKind::hang: return "hang";
    case ErrorKind::interrupted: return "interrupted";
    case ErrorKind::terminated: return "terminated";
    default: return code == 0 ? "ok" : "failed";
  }
}

std::string message_of(const Outcome& outcome) {
  std::string message;
  if (outcome.stopped_by_signal)
    message = fmt::format("stopped by {}", signal_name(*outcome.stopped_by_signal));
  if (outcome.first_failure) {
    const RankFailure& failure = *outcome.first_failure;
    if (!message.empty()) message += "; meanwhile ";
    message += fmt::format("rank {} (pid {} on {}) failed at step {} ({}): {}", failure.rank,
                           failure.pid, failure.host, failure.step, failure.phase, failure.message);
  }
  return message;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

bool is_stop_code(int code) {
  return code == code_of(ErrorKind::stopped) || code == code_of(ErrorKind::interrupted) ||
         code == code_of(ErrorKind::terminated);
}

bool is_failure(const RankEnd& end) {
  if (end.report) return true;
  if (end.signal == SIGKILL) return !end.killed_by_us;
  if (end.signal == SIGTERM) return !end.told_to_stop;
  if (end.exit_code == 0) return !end.finished && !end.told_to_stop;
  if (end.exit_code) return !is_stop_code(*end.exit_code);
  return true;
}

Outcome judge(const JobEnd& job) {
  Outcome outcome;
  std::vector<RankEnd> failures;
  std::ranges::copy_if(job.ranks, std::back_inserter(failures), is_failure);
  std::ranges::sort(failures, {}, [](const RankEnd& end) {
    return std::tuple(end.seen_in_round, end.signal ? 0 : 1, end.rank);
  });
  if (!failures.empty()) {
    const auto cause = failures.begin() + static_cast<std::ptrdiff_t>(first_cause(failures));
    std::rotate(failures.begin(), cause, cause + 1);
  }
  for (const RankEnd& end : failures) {
    const RankFailure failure = failure_of(end, job.host);
    if (outcome.first_failure) {
      outcome.consequences.push_back(failure);
    } else {
      outcome.first_failure = failure;
    }
  }
  if (outcome.first_failure) outcome.exit_code = outcome.first_failure->kind;
  if (job.stop_signal) {
    outcome.stopped_by_signal = job.stop_signal;
    outcome.exit_code =
        code_of(*job.stop_signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated);
  }
  outcome.verdict = verdict_of(outcome.exit_code);
  outcome.message = message_of(outcome);
  return outcome;
}

}  // namespace trainctl::launch
