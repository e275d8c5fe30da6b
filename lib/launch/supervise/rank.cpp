#include "launch/supervise/rank.hpp"

#include "base/error.hpp"
#include "events/codec.hpp"
#include "launch/process/threads.hpp"
#include "launch/supervise/failure_evidence.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace trainctl::launch {
namespace {

struct Pipe {
  Fd reading;
  Fd writing;
};

Pipe make_pipe(int flags) {
  std::array<int, 2> ends{};
  ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC | flags) == 0, "cannot make a pipe: {}",
         std::strerror(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

Pipe make_event_pipe() {
  Pipe pipe = make_pipe(0);
  ::fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// 0, 1 and 2 are the child's standard descriptors, even where the caller has none.
Fd above_standard(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  ENSURE(resource, copy.valid(), "cannot copy a descriptor: {}", std::strerror(errno));
  return copy;
}

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Rank::Rank(const Start& start, int rank, const Fd& store)
    : Rank(start, rank, store, events::HeartbeatPage::create()) {}

// The page is mapped already: where it lies does not change when it is moved.
Rank::Rank(const Start& start, int rank, const Fd& store, events::HeartbeatPage shared)
    : RankState(rank, shared.get(), start.spec.hang_timeout_s), page_(std::move(shared)) {
  Pipe pipe = make_event_pipe();
  const Fd writing = above_standard(pipe.writing.get());
  const Fd page = above_standard(page_.fd());
  Pipe answers = make_pipe(O_NONBLOCK);
  const Fd stacks = above_standard(answers.writing.get());
  const Fd socket = store.valid() ? above_standard(store.get()) : Fd();
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
  pidfd_ = Fd(open_pidfd(end_.pid));  // where the kernel has none, SIGCHLD wakes the loop
  events_ = std::move(pipe.reading);
  stacks_ = std::move(answers.reading);
}

Rank::~Rank() {
  if (!is_alive()) return;
  kill();
  // Bounded: a process in an uninterruptible wait is left behind; it dies when that ends.
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
  if (is_blamed_) events_.reset();
  if (events_.valid()) read_once(on_event, round);
}

events::LineReader::State Rank::read_once(const EventHandler& on_event, int round) {
  using State = events::LineReader::State;
  const State state = lines_.read_some(events_.get(), [&](std::string_view line) {
    if (is_blamed_) return;  // an earlier line was bad
    std::optional<events::Event> event;
    try {
      event = events::decode(line);
    } catch (const Error& error) {
      blame({static_cast<int>(ErrorKind::unexpected), error.message()}, round);
      return;
    }
    take_event(*event, round);
    on_event(end_.rank, *event);
    page_.get().heard.fetch_add(1, std::memory_order_release);
  });
  if (state == State::too_long) {
    blame(
        {static_cast<int>(ErrorKind::unexpected), "it sent an event line above the limit of 1 MiB"},
        round);
  }
  if (state == State::closed || is_blamed_) events_.reset();
  return events_.valid() ? state : State::closed;
}

void Rank::reap(const EventHandler& on_event, int round) {
  if (!is_alive() || !is_dead_already()) return;
  // While the process is not reaped its group's number cannot be taken by others.
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
  note_end(status);
  bury(round);
}

void Rank::note_end(int status) {
  if (WIFSIGNALED(status)) {
    end_.signal = WTERMSIG(status);
    end_.dumped_core = WCOREDUMP(status);
  } else {
    end_.exit_code = WEXITSTATUS(status);
  }
}

void Rank::terminate() {
  if (!is_alive() || end_.told_to_stop || is_leaving_ || is_dead_already()) return;
  end_.told_to_stop = true;
  ::kill(end_.pid, SIGTERM);
}

void Rank::kill() {
  if (!is_alive() || is_dead_already()) return;
  end_.killed_by_us = true;
  ::kill(-end_.pid, SIGKILL);
  ::kill(end_.pid, SIGKILL);
}

// The state stands behind the name, which may hold anything.
bool Rank::is_stopped() const {
  std::ifstream file(fmt::format("/proc/{}/stat", end_.pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end).starts_with(") T");
}

bool Rank::is_dead_already() const {
  siginfo_t info{};
  const int result =
      ::waitid(P_PID, static_cast<id_t>(end_.pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || info.si_pid == end_.pid;
}

}  // namespace trainctl::launch
