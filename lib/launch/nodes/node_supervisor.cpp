#include "launch/nodes/node_supervisor.hpp"

#include "base/error.hpp"
#include "launch/process/child.hpp"
#include "launch/process/signals.hpp"
#include "launch/rendezvous/address.hpp"
#include "log/log.hpp"

#include <poll.h>

#include <cmath>
#include <limits>

namespace trainctl::launch {
namespace {

RankHeartbeat heartbeat_of(int rank, const events::Heartbeat& page) {
  RankHeartbeat heartbeat;
  heartbeat.rank = rank;
  heartbeat.stamp = page.monotonic_ns.load(std::memory_order_acquire);
  heartbeat.step = page.global_step.load(std::memory_order_relaxed);
  heartbeat.phase = page.phase.load(std::memory_order_relaxed);
  heartbeat.loaded = page.loaded.load(std::memory_order_relaxed);
  const events::Collective last = page.collective();
  heartbeat.collective = last.name;
  heartbeat.in_collective = last.in_progress;
  return heartbeat;
}

class NodeSupervisor {
 public:
  NodeSupervisor(const LaunchSpec& spec, NodeLink& link, const Clock& clock)
      : spec_(spec), link_(link), clock_(clock), ranks_(spec, clock), shutdown_(spec.grace_s) {}

  void start(const ConnectRank& connect) {
    make_folder(spec_.log_folder);
    ranks_.start(signals_.child_mask(), connect);
  }

  NodeAttempt run() {
    while (!is_over()) poll_once();
    for (const auto& rank : ranks_.ranks()) {
      if (rank->is_alive()) send_end(*rank);  // it could not be killed
    }
    link_.send(NodeFinished{}, clock_.now());
    return outcome_;
  }

 private:
  static constexpr double kTickS = 0.2;
  static constexpr double kReapTimeoutS = 5;  // to wait after SIGKILL
  // The coordinator decides when the time of the ranks is up.
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  // Only poll() blocks here; other calls on descriptors return EAGAIN.
  void poll_once() {
    wait();
    ranks_.reap(forward_, round_, [this](Rank& rank) { send_end(rank); });
    read_events();
    take_signals();  // the coordinator must see a failure before the stop that follows it
    link_.serve(clock_.now(), [&](const NodeMessage& message) { handle_command(message); });
    check_coordinator();
    ranks_.kill_finished();
    if (clock_.now() >= next_tick_) tick();
    ++round_;
  }

  void wait() {
    std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
    if (link_.has_room()) ranks_.append_to(polls);
    link_.append_to(polls);
    const double left = std::clamp(next_tick_ - clock_.now(), 0.0, kTickS);
    ::poll(polls.data(), polls.size(), static_cast<int>(std::ceil(left * 1000)));
  }

  void take_signals() {
    for (const int signal : signals_.take()) {
      switch (shutdown_.handle_signal(signal, clock_.now(), kNoLimit)) {
        case ShutdownController::Action::stop:
          log::get().info(
              "received {}: all nodes save a checkpoint and exit; a second signal kills the run",
              signal_name(signal));
          link_.send(StopRequested{signal, false}, clock_.now());
          ranks_.terminate();
          break;
        case ShutdownController::Action::kill:
          link_.send(StopRequested{signal, true}, clock_.now());
          kill_all();
          break;
        case ShutdownController::Action::none: break;
      }
    }
  }

  // Events stay in the pipes of the ranks while the coordinator does not accept them.
  void read_events() {
    if (!link_.has_room()) return;
    for (const auto& rank : ranks_.ranks()) {
      const bool had_failed = rank->has_failed();
      rank->read_events(forward_, round_);
      const auto report = rank->end().report;
      // An invalid line cannot be forwarded as an event, so a Failed event is sent instead.
      if (!had_failed && report && rank->is_alive() && rank->is_marked_failed())
        forward_(rank->number(),
                 events::Failed{
                     .rank = rank->number(), .kind = report->kind, .message = report->message});
    }
  }

  void send_end(const Rank& rank) {
    RankEnd end = rank.end();
    end.host = host_name();
    link_.send(RankEnded{std::move(end)}, clock_.now());
  }

  void handle_command(const NodeMessage& message) {
    if (const auto* stop = std::get_if<StopRanks>(&message)) {
      shutdown_.begin_stop(stop->signal, clock_.now(), kNoLimit);
      ranks_.terminate();
    } else if (std::holds_alternative<KillRanks>(message)) {
      kill_all();
    } else if (std::holds_alternative<WriteStacks>(message)) {
      write_stacks(spec_.log_folder, ranks_.stack_sources());
    } else if (const auto* over = std::get_if<RunEnded>(&message)) {
      outcome_.over = *over;
      kill_all();
    } else {
      log::get().warn("ignored a message from node 0, because it is not valid while ranks run");
    }
  }

  void check_coordinator() {
    if (!link_.lost() || outcome_.lost || outcome_.over) return;
    outcome_.lost = link_.lost();
    log::get().warn("node 0 is lost: {}; killing the ranks of this node", *outcome_.lost);
    kill_all();
  }

  void tick() {
    next_tick_ = clock_.now() + kTickS;
    NodeHeartbeats heartbeats;
    for (const auto& rank : ranks_.ranks()) {
      if (rank->is_alive()) heartbeats.ranks.push_back(heartbeat_of(rank->number(), rank->page()));
    }
    if (!heartbeats.ranks.empty() && link_.has_room()) link_.send(heartbeats, clock_.now());
  }

  void kill_all() {
    if (!killed_at_) killed_at_ = clock_.now();
    ranks_.kill();
  }

  [[nodiscard]] bool is_over() const {
    return ranks_.none_alive() || (killed_at_ && clock_.now() - *killed_at_ > kReapTimeoutS);
  }

  const LaunchSpec& spec_;
  NodeLink& link_;
  const Clock& clock_;
  const EventHandler forward_ = [this](int rank, const events::Event& event) {
    link_.send(RankEvent{rank, event}, clock_.now());
  };

  // Destroyed in reverse order: ranks end while orphans are tracked and signals are blocked.
  SignalGuard signals_;
  OrphanReaper orphans_;
  LocalRanks ranks_;

  int round_ = 1;
  double next_tick_ = 0;
  ShutdownController shutdown_;
  std::optional<double> killed_at_;
  NodeAttempt outcome_;
};

}  // namespace

NodeAttempt supervise_node(const LaunchSpec& spec, NodeLink& link, const ConnectRank& connect,
                           const Clock& clock) {
  ASSERT(spec.placement.node > 0 && spec.placement.node < spec.placement.nodes);
  ASSERT(spec.world_size % spec.placement.nodes == 0);
  NodeSupervisor supervisor(spec, link, clock);
  supervisor.start(connect);
  return supervisor.run();
}

}  // namespace trainctl::launch
