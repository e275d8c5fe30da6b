#include "launch/supervise/rank.hpp"

#include "base/error.hpp"
#include "base/machine/procfs.hpp"
#include "events/pipe.hpp"
#include "launch/process/child.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace trainctl::launch {
namespace {

struct Pipe {
  Fd reading;
  Fd writing;
};

Pipe make_pipe(int flags) {
  std::array<int, 2> ends{};
  ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC | flags) == 0, "cannot create a pipe: {}",
         std::strerror(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

// Descriptors 0 to 2 become the child's standard descriptors, even if the caller has none.
Fd duplicate_above_stderr(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  ENSURE(resource, copy.valid(), "cannot duplicate a descriptor: {}", std::strerror(errno));
  return copy;
}

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Rank::Rank(const StartOptions& start, int rank, const Fd& store)
    : Rank(start, rank, store, events::HeartbeatPage::create()) {}

// The heartbeat page is already mapped, so moving it does not change its address.
Rank::Rank(const StartOptions& start, int rank, const Fd& store, events::HeartbeatPage shared)
    : RankState(rank, shared.get(), start.spec.hang_timeout_s), page_(std::move(shared)) {
  Pipe pipe = make_pipe(0);
  ::fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK);
  const Fd writing = duplicate_above_stderr(pipe.writing.get());
  const Fd page = duplicate_above_stderr(page_.fd());
  Pipe answers = make_pipe(O_NONBLOCK);
  const Fd stacks = duplicate_above_stderr(answers.writing.get());
  const Fd socket = store.valid() ? duplicate_above_stderr(store.get()) : Fd();
  ChildPlan plan;
  plan.fds = {writing.get(), page.get(), socket.get(), stacks.get()};
  plan.argv = start.spec.argv;
  plan.environment = worker_environment(start.spec, rank, plan.fds);
  plan.log_path = log_path(start.spec.log_folder, rank);
  plan.mask = start.mask;
  plan.cores = cores_for(start.spec, rank);
  remove_error_file(start.spec.log_folder, rank);
  remove_stacks(start.spec.log_folder, rank);
  end_.pid = start_child(plan);
  RankState::start();
  pidfd_ = Fd(open_pidfd(end_.pid));  // without pidfd support, SIGCHLD wakes the loop
  events_ = std::move(pipe.reading);
  stacks_ = std::move(answers.reading);
}

Rank::~Rank() {
  if (!is_alive()) return;
  kill();
  // The wait is bounded: a process in uninterruptible sleep is left; it dies when it wakes up.
  constexpr int kRounds = 2000;
  for (int i = 0; i < kRounds && ::waitpid(end_.pid, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Rank::append_to(std::vector<pollfd>& polls) const {
  if (is_alive() && pidfd_.valid()) polls.push_back({pidfd_.get(), POLLIN, 0});
  if (events_.valid()) polls.push_back({events_.get(), POLLIN, 0});
}

void Rank::read_events(const EventHandler& on_event, int round) {
  if (is_marked_failed_) events_.reset();
  if (events_.valid()) read_once(on_event, round);
}

events::LineReader::State Rank::read_once(const EventHandler& on_event, int round) {
  using State = events::LineReader::State;
  const State state = lines_.read_some(events_.get(), [&](std::string_view line) {
    if (is_marked_failed_) return;  // an earlier line was invalid
    std::optional<events::Event> event;
    try {
      event = events::decode(line);
    } catch (const Error& error) {
      return mark_failed({static_cast<int>(ErrorKind::unexpected), "it sent an " + error.message()},
                         round);
    }
    handle_event(*event, round);
    on_event(end_.rank, *event);
    page_.get().num_recorded.fetch_add(1, std::memory_order_release);
  });
  if (state == State::too_long) {
    mark_failed(
        {static_cast<int>(ErrorKind::unexpected), "it sent an event line of more than 1 MiB"},
        round);
  }
  if (state == State::closed || is_marked_failed_) events_.reset();
  return events_.valid() ? state : State::closed;
}

void Rank::reap(const EventHandler& on_event, int round) {
  if (!is_alive() || !has_exited()) return;
  // Until the process is reaped, the id of its group cannot be reused.
  ::kill(-end_.pid, SIGKILL);
  constexpr int kMostReads = 64;
  for (int i = 0; i < kMostReads && events_.valid(); ++i) {
    if (read_once(on_event, round) != events::LineReader::State::more) break;
  }
  events_.reset();
  int status = 0;
  rusage usage{};
  if (::wait4(end_.pid, &status, 0, &usage) != end_.pid) status = 0;
  peak_rss_kib_ = usage.ru_maxrss;
  set_exit_status(status);
  mark_exited(round);
}

void Rank::set_exit_status(int status) {
  if (WIFSIGNALED(status)) {
    end_.signal = WTERMSIG(status);
    end_.dumped_core = WCOREDUMP(status);
  } else {
    end_.exit_code = WEXITSTATUS(status);
  }
}

void Rank::terminate() {
  if (!is_alive() || end_.sigterm_sent || is_exiting_ || has_exited()) return;
  end_.sigterm_sent = true;
  ::kill(end_.pid, SIGTERM);
}

void Rank::kill() {
  if (!is_alive() || has_exited()) return;
  end_.sigkill_sent = true;
  ::kill(-end_.pid, SIGKILL);
  ::kill(end_.pid, SIGKILL);
}

bool Rank::is_stopped() const {
  const auto process = read_process_stat(end_.pid);
  return process && process->state == 'T';
}

bool Rank::has_exited() const {
  siginfo_t info{};
  const int result =
      ::waitid(P_PID, static_cast<id_t>(end_.pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || info.si_pid == end_.pid;
}

RankState::RankState(int rank, const events::Heartbeat& page, std::optional<double> hang_timeout_s)
    : heartbeat_(page), monitor_(hang_timeout_s) {
  end_.rank = rank;
}

void RankState::handle_event(const events::Event& event, int round) {
  if (std::holds_alternative<events::Hello>(event)) has_sent_hello_ = true;
  if (std::holds_alternative<events::Finished>(event)) end_.finished = true;
  if (const auto* progress = std::get_if<events::Progress>(&event)) {
    reported_step_ = progress->global_step;
    reported_phase_ = progress->phase;
  }
  const auto* failed = std::get_if<events::Failed>(&event);
  if (failed == nullptr || is_stop_code(failed->kind)) return;
  reported_step_ = failed->global_step;
  reported_phase_ = failed->phase;
  is_exiting_ = true;
  if (!end_.report) end_.seen_in_round = round;
  if (!end_.report) end_.report = FailureReport{failed->kind, failed->message};
}

void RankState::mark_exited(int round) {
  alive_ = false;
  if (end_.seen_in_round == 0) end_.seen_in_round = round;
}

void RankState::freeze_position() {
  end_ = end();
  position_is_frozen_ = true;
}

void RankState::mark_failed(FailureReport report, int round) {
  is_marked_failed_ = true;
  if (end_.report) return;
  end_.report = std::move(report);
  end_.seen_in_round = round;
}

std::optional<Stall> RankState::stall(double now) const {
  auto stall = alive_ && !end_.finished ? monitor_.stall(now) : std::nullopt;
  if (stall) stall->collective = heartbeat_.collective();
  return stall;
}

std::optional<Stall> RankState::stall_if_stopped(double now) const {
  constexpr double kMinStalledS = 1;  // before /proc is read
  const bool watched = alive_ && !end_.finished && monitor_.heartbeat_at() > 0;
  if (!watched || monitor_.stalled_s(now) < kMinStalledS || !is_stopped()) return {};
  Stall stall = current_stall(now);
  stall.limit_s = monitor_.step_limit_s();
  stall.stopped = true;
  return stall;
}

Stall RankState::current_stall(double now) const {
  return {monitor_.stalled_s(now), monitor_.limit_s().value_or(0), monitor_.phase(),
          heartbeat_.collective()};
}

RankEnd RankState::end() const {
  RankEnd end = end_;
  end.started = was_started_;
  if (position_is_frozen_) return end;
  const bool stamped = heartbeat_.monotonic_ns.load(std::memory_order_acquire) != 0;
  end.step = stamped ? heartbeat_.global_step.load(std::memory_order_relaxed) : reported_step_;
  const auto phase = static_cast<events::Phase>(heartbeat_.phase.load(std::memory_order_relaxed));
  end.phase = events::phase_name(stamped ? phase : reported_phase_);
  end.collective = heartbeat_.collective().name;
  return end;
}

RemoteRank::RemoteRank(int rank, std::optional<double> hang_timeout_s)
    : RemoteRank(rank, std::make_unique<events::Heartbeat>(), hang_timeout_s) {}

RemoteRank::RemoteRank(int rank, std::unique_ptr<events::Heartbeat> copy,
                       std::optional<double> limit)
    : RankState(rank, *copy, limit), copy_(std::move(copy)) {}

void RemoteRank::mark_requested(const std::string& host) {
  end_.host = host;
  start();
}

void RemoteRank::add_event(const events::Event& event, int round) {
  // The node also reports the pid with the end, but that message is missing if the node is lost.
  if (const auto* hello = std::get_if<events::Hello>(&event))
    end_.pid = static_cast<pid_t>(hello->pid);
  handle_event(event, round);
}

void RemoteRank::set_heartbeat(const RankHeartbeat& heartbeat) {
  copy_->global_step.store(heartbeat.step, std::memory_order_relaxed);
  copy_->phase.store(heartbeat.phase, std::memory_order_relaxed);
  copy_->loaded.store(heartbeat.loaded, std::memory_order_relaxed);
  copy_->begin_collective(heartbeat.collective);
  if (!heartbeat.in_collective) copy_->end_collective();
  copy_->monotonic_ns.store(heartbeat.stamp, std::memory_order_release);
}

void RemoteRank::record_exit(const RankEnd& end, int round) {
  const RankEnd before = this->end();
  end_ = end;
  end_.rank = before.rank;
  end_.host = before.host;
  end_.seen_in_round = before.seen_in_round;
  end_.finished = before.finished || end.finished;
  if (before.report) {  // its own report, or why it was ended
    end_.report = before.report;
    end_.step = before.step;
    end_.phase = before.phase;
  }
  mark_exited(round);
  freeze_reported_position();
}

void RemoteRank::mark_lost(const FailureReport& why, int round) {
  freeze_position();
  end_.node_lost = !end_.report && why.kind == static_cast<int>(ErrorKind::rank_failed);
  mark_failed(why, round);
  mark_exited(round);
}

}  // namespace trainctl::launch
