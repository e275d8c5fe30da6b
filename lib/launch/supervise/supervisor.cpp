#include "launch/supervise/supervisor.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/nodes/coordinator.hpp"
#include "launch/process/child.hpp"
#include "launch/process/signals.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/supervise/hang_detection.hpp"
#include "launch/supervise/job_ranks.hpp"
#include "log/log.hpp"

#include <poll.h>

#include <cmath>

namespace trainctl::launch {
namespace {

constexpr double kMinStopGrace = 30;
constexpr double kStopSteps = 3;
constexpr double kStopSaves = 2;
constexpr double kRepeatS = 0.2;
constexpr double kMaxSaveTime = 600;
constexpr double kMaxGraceFactor = 10;

constexpr double kTickS = 0.2;
// After SIGKILL a process may be in uninterruptible sleep; it is left after this time.
constexpr double kKillTimeoutS = 5;
// A rank may report a lost peer before the kernel has ended the peer.
constexpr double kPeerReportDelayS = 0.2;
constexpr double kRemotePeerReportDelayS = 1;  // messages of another node take longer

class Supervisor {
 public:
  Supervisor(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
             const Clock& clock)
      : spec_(spec),
        on_event_(on_event),
        on_tick_(on_tick),
        clock_(clock),
        job_(spec, clock),
        shutdown_(spec.grace_s) {}

  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void start() {
    make_folder(spec_.log_folder);
    job_.start(signals_.child_mask(), store_);
    started_at_ = clock_.now();
  }

  Outcome run() {
    while (!is_finished()) run_iteration();
    return collect_outcome({spec_, job_.all(), shutdown_.signal(), job_.remote_stacks_rank()});
  }

 private:
  // Only poll() blocks here; other calls on descriptors return EAGAIN.
  void run_iteration() {
    const int ready = wait();
    job_.local().reap(on_event_, round_, [this](Rank& rank) { handle_exit(rank.end()); });
    job_.local().read_events(on_event_, round_);
    serve_nodes();
    serve_store();
    check_start();
    job_.local().kill_finished();
    check_heartbeats();
    check_failures();
    // Signals come last: a launcher sends them because of a failure, which must be seen first.
    handle_signals();
    handle_node_stops();
    if (!killed_at_ && shutdown_.is_due(clock_.now())) kill_all();
    if (ready == 0 || clock_.now() >= next_tick_) tick();
    ++round_;
  }

  int wait() {
    std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
    job_.local().append_to(polls);
    store_.append_to(polls);
    if (spec_.coordinator != nullptr) spec_.coordinator->append_to(polls);
    const double left = std::clamp(next_tick_ - clock_.now(), 0.0, kTickS);
    return ::poll(polls.data(), polls.size(), static_cast<int>(std::ceil(left * 1000)));
  }

  void tick() {
    next_tick_ = clock_.now() + kTickS;
    if (on_tick_) on_tick_();
  }

  void handle_signals() {
    for (const int signal : signals_.take()) {
      const double grace_s = job_.stop_grace_s();
      switch (shutdown_.handle_signal(signal, clock_.now(), grace_s)) {
        case ShutdownController::Action::stop:
          log::get().info(
              "received {}: the run saves a checkpoint and exits within {}; a second signal kills "
              "the run",
              signal_name(signal), human_duration(grace_s));
          terminate_all();
          break;
        case ShutdownController::Action::kill: kill_all(); break;
        case ShutdownController::Action::none: break;
      }
    }
  }

  void serve_store() {
    if (spec_.coordinator != nullptr) {
      for (Coordinator::RankArrival& arrival : spec_.coordinator->take_rank_arrivals())
        store_.add_client(arrival.rank, std::move(arrival.socket));
    }
    store_.serve();
    report_disconnects();
  }

  void serve_nodes() {
    if (spec_.coordinator == nullptr) return;
    RemoteNodes& nodes = spec_.coordinator->nodes();
    spec_.coordinator->serve(clock_.now(), round_, on_event_);
    for (const RankEnd& end : nodes.take_ended()) {
      log::get().debug("rank {} on {} exited", end.rank, printable(end.host));
      stop_if_rank_stopped(end);
    }
  }

  void handle_node_stops() {
    if (spec_.coordinator == nullptr) return;
    for (const StopRequested& asked : spec_.coordinator->nodes().take_stop_requests())
      handle_node_stop(asked);
  }

  // A stop signal to the supervisor of another node stops the whole job.
  void handle_node_stop(const StopRequested& asked) {
    if (!shutdown_.has_begun()) {
      log::get().info("another node received {}: the run saves a checkpoint and exits",
                      signal_name(asked.signal));
      begin_stop(asked.signal == SIGINT ? SIGINT : SIGTERM);
    }
    if (asked.at_once) kill_all();
  }

  void begin_stop(int signal) {
    shutdown_.begin_stop(signal, clock_.now(), job_.stop_grace_s());
    terminate_all();
  }

  void handle_exit(const RankEnd& end) {
    log::get().debug("rank {} exited: {}", end.rank,
                     end.exit_code ? fmt::format("exit code {}", *end.exit_code)
                                   : fmt::format("signal {}", end.signal.value_or(0)));
    stop_if_rank_stopped(end);
  }

  // Slurm sends stop signals to the workers themselves; the job stops as if the supervisor got it.
  void stop_if_rank_stopped(const RankEnd& end) {
    const auto signal = stop_signal_of(end);
    if (!signal) return;
    if (!shutdown_.has_begun()) begin_stop(*signal);
    if (stopped_without_checkpoint(end)) shutdown_.shorten(clock_.now());
  }

  void check_start() {
    if (all_started_ || shutdown_.has_begun()) return;
    std::vector<std::string> missing;
    RankState* first = nullptr;
    for (RankState* rank : job_.all()) {
      if (rank->has_sent_hello()) continue;
      missing.push_back(std::to_string(rank->number()));
      if (first == nullptr) first = rank;
    }
    all_started_ = missing.empty();
    if (all_started_ || clock_.now() - started_at_ < spec_.init_timeout_s) return;
    fail_with_hang(*first, fmt::format("rank{} {} of {} did not report within {} after the start{}",
                                       plural(missing.size()), trainctl::join(missing, ", "),
                                       job_.all().size(), human_duration(spec_.init_timeout_s),
                                       job_.missing_nodes_note()));
  }

  void check_heartbeats() {
    const double now = clock_.now();
    for (RankState* rank : job_.all()) {
      rank->poll_heartbeat(now);
      if (rank->is_saving()) shutdown_.extend(rank->monitor().heartbeat_at());
    }
    // After a failure of one rank, the others stall because of it.
    const bool failed =
        std::ranges::any_of(job_.all(), [](const auto* rank) { return rank->has_failed(); });
    const auto hung = find_hung_rank(job_.all(), now);
    if (!hung || failed || shutdown_.has_begun() || has_hang_) return;
    fail_with_hang(*hung->rank, describe_stall(hung->stall));
  }

  void fail_with_hang(RankState& rank, std::string message) {
    has_hang_ = true;
    rank.freeze_position();
    message.insert(without_hint(message).size(), job_.write_stacks(rank));
    rank.mark_failed({static_cast<int>(ErrorKind::hang), message}, round_);
  }

  void check_failures() {
    bool failed = false;
    bool has_cause = false;
    for (const RankState* rank : job_.all()) {
      failed = failed || rank->has_failed();
      has_cause = has_cause || (rank->has_failed() && !lost_peer(rank->end()));
    }
    if (!failed || shutdown_.is_shortened()) return;
    const double now = clock_.now();
    const double delay_s =
        spec_.coordinator == nullptr ? kPeerReportDelayS : kRemotePeerReportDelayS;
    if (!failed_at_) failed_at_ = now;
    if (!has_cause && now - *failed_at_ < delay_s) return;
    shutdown_.shorten(now);
    terminate_all();
  }

  void terminate_all() { job_.terminate(shutdown_.signal().value_or(0)); }

  void kill_all() {
    if (!killed_at_) killed_at_ = clock_.now();
    job_.kill();
  }

  void report_disconnects() {
    for (const StoreServer::Disconnect& lost : store_.take_disconnects()) {
      on_event_(lost.rank,
                events::Warning{fmt::format("trainctl closed the connection of rank {}: {}",
                                            lost.rank, lost.reason)});
    }
  }

  [[nodiscard]] bool is_finished() const {
    return job_.none_alive() || (killed_at_ && clock_.now() - *killed_at_ > kKillTimeoutS);
  }

  const LaunchSpec& spec_;
  const EventHandler& on_event_;
  const TickHandler& on_tick_;
  const Clock& clock_;

  // Destroyed in reverse order: ranks end while orphans are tracked and signals are blocked.
  SignalGuard signals_;
  OrphanReaper orphans_;
  StoreServer store_;
  JobRanks job_;

  int round_ = 1;
  double started_at_ = 0;
  double next_tick_ = 0;
  ShutdownController shutdown_;
  std::optional<double> failed_at_;
  std::optional<double> killed_at_;
  bool all_started_ = false;
  bool has_hang_ = false;
};

}  // namespace

double default_stop_grace(double step_s, double save_s) {
  return std::max(kMinStopGrace, kStopSteps * step_s + kStopSaves * save_s);
}

ShutdownController::Action ShutdownController::handle_signal(int signal, double now,
                                                             double stop_grace_s) {
  if (supervisor_signal_) {
    const bool repeated = signal == *supervisor_signal_ && now - supervisor_signal_at_ < kRepeatS;
    return repeated ? Action::none : Action::kill;
  }
  if (has_begun() && !signal_) return Action::kill;
  supervisor_signal_ = signal;
  supervisor_signal_at_ = now;
  if (!has_begun()) {
    begin(signal, now, stop_grace_s);
    return Action::stop;
  }
  signal_ = signal;  // more specific than the rank's exit code
  return Action::none;
}

void ShutdownController::begin_stop(int signal, double now, double stop_grace_s) {
  if (!has_begun()) begin(signal, now, stop_grace_s);
}

void ShutdownController::begin(int signal, double now, double stop_grace_s) {
  signal_ = signal;
  stop_grace_s_ = stop_grace_s;
  began_at_ = now;
  kill_at_ = now + stop_grace_s;
}

void ShutdownController::shorten(double now) {
  if (is_shortened_) return;
  is_shortened_ = true;
  kill_at_ = std::min(kill_at_.value_or(now + grace_s_), now + grace_s_);
}

void ShutdownController::extend(double progress_at) {
  if (!has_begun() || is_shortened_) return;
  const double longest = std::max(kMaxSaveTime, kMaxGraceFactor * stop_grace_s_);
  kill_at_ = std::max(*kill_at_, std::min(progress_at + stop_grace_s_, began_at_ + longest));
}

Outcome supervise(const LaunchSpec& spec, const EventHandler& on_event, const TickHandler& on_tick,
                  const Clock& clock) {
  ASSERT(spec.world_size >= 1 && spec.placement.node == 0);
  ASSERT(spec.world_size % spec.placement.nodes == 0);
  Supervisor supervisor(spec, on_event, on_tick, clock);
  supervisor.start();
  return supervisor.run();
}

}  // namespace trainctl::launch
