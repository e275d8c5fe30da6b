#include "launch/supervise/verdict.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>
#include <ranges>
#include <tuple>

namespace trainctl::launch {
namespace {

constexpr int code_of(ErrorKind kind) { return static_cast<int>(kind); }

constexpr int kLoaderFailed = 127;  // of the dynamic loader
constexpr int kUnexpected = code_of(ErrorKind::unexpected);
constexpr int kRankFailed = code_of(ErrorKind::rank_failed);

// Exit codes with which a worker ends the job, since the error would occur again. ErrorKind 1
// requires a report, since any program can exit with 1.
bool is_job_exit_code(int code) {
  constexpr std::array kCodes{ErrorKind::config, ErrorKind::diverged,   ErrorKind::hang,
                              ErrorKind::data,   ErrorKind::checkpoint, ErrorKind::resource};
  return std::ranges::any_of(kCodes, [&](ErrorKind kind) { return code_of(kind) == code; });
}

int kind_of(const RankEnd& end) {
  if (end.report) {
    return is_job_exit_code(end.report->kind) || end.report->kind == kUnexpected ? end.report->kind
                                                                                 : kRankFailed;
  }
  return end.exit_code && is_job_exit_code(*end.exit_code) ? *end.exit_code : kRankFailed;
}

std::string failure_message(const RankEnd& end) {
  if (end.report) {
    const std::string_view hint = hint_of(end.report->message);
    return one_line(without_hint(end.report->message)) +
           (hint.empty() ? "" : "\nhint: " + printable(hint));
  }
  if (end.signal) {
    const char* core = end.dumped_core ? " (core dumped)" : "";
    return fmt::format("it was killed by {}{}{}", signal_name(*end.signal), core, end.memory_hint);
  }
  if (end.exit_code == 0) return "it exited with code 0 but did not report that it had finished";
  if (end.exit_code == kLoaderFailed)
    return "it cannot start: a shared library is missing or cannot be loaded (see the rank's log)";
  if (end.exit_code)
    return fmt::format("it exited with code {} and reported no error", *end.exit_code);
  return "it cannot be killed: it is in uninterruptible sleep, often because of a disk or network "
         "file system";
}

events::RankFailure failure_of(const RankEnd& end, const std::string& host) {
  events::RankFailure failure;
  failure.rank = end.rank;
  failure.host = end.host.empty() && end.started ? host : end.host;
  failure.pid = end.pid;
  failure.signal = end.signal;
  if (end.signal) failure.signal_name = signal_name(*end.signal);
  failure.exit_code = end.exit_code;
  failure.step = end.step;
  failure.phase = end.phase;
  failure.collective = end.collective;
  failure.kind = kind_of(end);
  failure.message = failure_message(end);
  return failure;
}

// SIGABRT is left out: libraries abort when they lose a peer.
bool crashed(const RankEnd& end) {
  constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  if (!end.signal || end.report) return false;
  if (*end.signal == SIGKILL) return !end.sigkill_sent;
  return std::ranges::find(kCrashes, *end.signal) != kCrashes.end();
}

// A rank that lost its peer may report that before the kernel has ended the peer; the report is
// then a consequence of what ended the peer.
std::size_t first_cause(const std::vector<RankEnd>& failures) {
  const RankEnd& first = failures.front();
  const bool may_be_consequence =
      lost_peer(first) || (!first.signal && kind_of(first) == kUnexpected) ||
      (!first.report && first.exit_code && kind_of(first) == kRankFailed);
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (lost_peer(first) && !lost_peer(failures[i])) return i;
    if (may_be_consequence && (crashed(failures[i]) || failures[i].node_lost)) return i;
  }
  return 0;
}

bool is_stop_signal(int signal) {
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
  return std::ranges::find(kSignals, signal) != kSignals.end();
}

bool saved_checkpoint(const RankEnd& end) { return end.exit_code == code_of(ErrorKind::stopped); }

// A rank that finished nevertheless does not contradict the others.
bool all_saved(const JobEnd& job) {
  return std::ranges::any_of(job.ranks, saved_checkpoint) &&
         std::ranges::all_of(job.ranks, [](const RankEnd& end) {
           return !is_failure(end) &&
                  (saved_checkpoint(end) || (end.exit_code == 0 && end.finished));
         });
}

// Returns nothing if no signal stopped the job.
std::optional<ErrorKind> stop_kind(const JobEnd& job) {
  if (!job.stop_signal) return std::nullopt;
  const bool interrupted =
      *job.stop_signal == SIGINT || std::ranges::any_of(job.ranks, [](const RankEnd& end) {
        return stop_signal_of(end) == SIGINT;
      });
  if (interrupted) return ErrorKind::interrupted;
  return all_saved(job) ? ErrorKind::stopped : ErrorKind::terminated;
}

std::string verdict_of(int code) {
  switch (static_cast<ErrorKind>(code)) {
    case ErrorKind::diverged: return "diverged";
    case ErrorKind::hang: return "hang";
    case ErrorKind::stopped: return "stopped";
    case ErrorKind::interrupted: return "interrupted";
    case ErrorKind::terminated: return "terminated";
    default: return code == 0 ? "ok" : "failed";
  }
}

std::string ranks_matching(const JobEnd& job, bool (*matches)(const RankEnd&)) {
  std::vector<std::string> ranks;
  for (const RankEnd& end : job.ranks) {
    if (matches(end)) ranks.push_back(std::to_string(end.rank));
  }
  return ranks.empty() ? ""
                       : (ranks.size() == 1 ? "rank " : "ranks ") + trainctl::join(ranks, ", ");
}

std::string stop_text(const JobEnd& job) {
  std::string text = fmt::format("stopped by {}", signal_name(*job.stop_signal));
  const auto finished = [](const RankEnd& end) { return end.finished && end.exit_code == 0; };
  if (all_saved(job)) return text + " after a checkpoint was saved";
  if (std::ranges::all_of(job.ranks, finished)) return text + ", but all ranks had finished";
  const std::string killed = ranks_matching(
      job, [](const RankEnd& end) { return end.signal == SIGKILL && end.sigkill_sent; });
  return killed.empty() ? text : text + "; " + killed + " had not exited and got SIGKILL";
}

// The pid of a process on another node is unknown if the node is lost early.
std::string process_of(const events::RankFailure& failure) {
  if (failure.host.empty()) return "not started";
  return failure.pid == 0 ? "on " + failure.host
                          : fmt::format("pid {} on {}", failure.pid, failure.host);
}

std::string message_of(const Outcome& outcome, const JobEnd& job) {
  std::string message;
  if (job.stop_signal) message = stop_text(job);
  if (outcome.first_failure) {
    const events::RankFailure& one = *outcome.first_failure;
    if (!message.empty()) message += "; meanwhile ";
    message += fmt::format("rank {} ({}) failed at step {} ({}): {}", one.rank, process_of(one),
                           with_thousands(one.step), one.phase, one.message);
  }
  return message;
}

// Reads "oom_kill 3" among other lines.
std::optional<std::uint64_t> read_oom_kills(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

// Reads the innermost group that has the file: in a container the path may be that of the host.
std::optional<std::uint64_t> innermost_count(const std::vector<fs::path>& groups,
                                             const char* name) {
  for (const fs::path& group : std::views::reverse(groups)) {
    if (const auto count = read_oom_kills(group / name)) return count;
  }
  return std::nullopt;
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

std::optional<int> stop_signal_of(const RankEnd& end) {
  if (end.report) return std::nullopt;
  if (end.signal && is_stop_signal(*end.signal)) return *end.signal == SIGINT ? SIGINT : SIGTERM;
  if (!end.exit_code || !is_stop_code(*end.exit_code)) return std::nullopt;
  return *end.exit_code == code_of(ErrorKind::interrupted) ? SIGINT : SIGTERM;
}

bool stopped_without_checkpoint(const RankEnd& end) {
  return stop_signal_of(end) && (end.signal || end.exit_code == code_of(ErrorKind::terminated));
}

bool lost_peer(const RankEnd& end) {
  return end.report && kind_of(end) == kRankFailed && !end.node_lost;
}

bool is_failure(const RankEnd& end) {
  if (end.report) return true;
  if (end.signal == SIGKILL) return !end.sigkill_sent;
  if (end.signal && is_stop_signal(*end.signal)) return false;
  if (end.exit_code == 0) return !end.finished && !end.sigterm_sent;
  if (end.exit_code) return !is_stop_code(*end.exit_code);
  return true;
}

Outcome derive_outcome(const JobEnd& job) {
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
  // A rank that lost a peer because the peer was stopped has not failed by itself.
  const bool unsaved =
      job.stop_signal && std::ranges::any_of(job.ranks, stopped_without_checkpoint);
  for (const RankEnd& end : failures) {
    const events::RankFailure failure = failure_of(end, job.host);
    if (outcome.first_failure || (unsaved && lost_peer(end))) {
      outcome.consequences.push_back(failure);
    } else {
      outcome.first_failure = failure;
    }
  }
  if (outcome.first_failure) outcome.exit_code = outcome.first_failure->kind;
  outcome.stopped_by_signal = job.stop_signal;
  if (const auto stopped = stop_kind(job)) outcome.exit_code = code_of(*stopped);
  outcome.verdict = verdict_of(outcome.exit_code);
  outcome.message = message_of(outcome, job);
  return outcome;
}

fs::path error_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.error.json", rank);
}

void write_error_file(const fs::path& log_folder, int rank, const Error& error) {
  Json document;
  document["schema"] = "trainctl.rank_error/2";
  document["rank"] = rank;
  document["kind"] = error.exit_code();
  document["message"] = error.what();
  document["where"] = fmt::format("{}:{}", error.where().file_name(), error.where().line());
  document["time"] = utc_timestamp();
  write_atomically(error_path(log_folder, rank), to_pretty(document) + "\n");
}

std::optional<events::Failed> read_error_file(const fs::path& log_folder, int rank) {
  constexpr std::uint64_t kMaxBytes = 1 << 20;
  std::string text;
  try {
    text = read_file(error_path(log_folder, rank), kMaxBytes, ReadFailure::resource);
  } catch (const Error&) {
    return std::nullopt;
  }
  const Json document = parse_json(text);
  if (!document.is_object()) return std::nullopt;
  const Json kind = document.value("kind", Json());
  const Json message = document.value("message", Json());
  if (!kind.is_number_integer() || !message.is_string()) return std::nullopt;
  events::Failed failed;
  failed.rank = rank;
  failed.kind = kind.get<int>();
  failed.message = message.get<std::string>();
  return failed;
}

void remove_error_file(const fs::path& log_folder, int rank) {
  std::error_code ignored;
  fs::remove(error_path(log_folder, rank), ignored);
}

fs::path log_path(const fs::path& log_folder, int rank) {
  return log_folder / fmt::format("rank_{}.log", rank);
}

std::string log_tail(const fs::path& log) {
  constexpr std::streamoff kMaxBytes = 16 << 10;
  constexpr std::size_t kMaxLines = 20;
  struct stat info {};
  if (::stat(log.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  std::ifstream file(log, std::ios::binary);
  const bool cut = info.st_size > kMaxBytes;
  if (cut) file.seekg(info.st_size - kMaxBytes);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(printable(line));
    if (lines.size() > kMaxLines) lines.pop_front();
  }
  if (cut && lines.size() < kMaxLines && lines.size() > 1)
    lines.pop_front();  // the first line is incomplete
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::optional<std::uint64_t> oom_kills(const fs::path& root) {
  const Cgroups groups = read_cgroups(root, "memory");
  if (const auto count = innermost_count(groups.v1, "memory.oom_control")) return count;
  if (const auto count = innermost_count(groups.v2, "memory.events")) return count;
  return read_oom_kills(root / "proc/vmstat");
}

OomKillTracker::OomKillTracker(fs::path root)
    : root_(std::move(root)), explained_(oom_kills(root_)) {}

std::string OomKillTracker::explain_kill(double peak_bytes) {
  const auto now = oom_kills(root_);
  if (explained_ && now && *now > *explained_) {
    ++*explained_;
    return fmt::format(" (out of memory: the kernel's oom_kill counter increased; peak memory {})",
                       human_bytes(peak_bytes));
  }
  return fmt::format(
      " from another process or the kernel (possibly out of memory: peak memory {}; see `dmesg`)",
      human_bytes(peak_bytes));
}

}  // namespace trainctl::launch
