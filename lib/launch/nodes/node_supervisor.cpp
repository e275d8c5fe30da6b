#include "launch/nodes/node_supervisor.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "launch/process/orphans.hpp"
#include "launch/process/signals.hpp"
#include "launch/process/stacks.hpp"
#include "launch/rendezvous/address.hpp"
#include "launch/supervise/failure_evidence.hpp"
#include "launch/supervise/rank.hpp"
#include "launch/supervise/shutdown.hpp"
#include "log/log.hpp"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <memory>
#include <variant>
#include <vector>

namespace trainctl::launch {
namespace {

constexpr double kTickS = 0.2;
constexpr double kExitS = 10;   // from Finished to the end of the process, see supervisor.cpp
constexpr double kBurialS = 5;  // after SIGKILL
// The head says when the ranks have had their time.
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

RankPulse pulse_of(int rank, const events::Heartbeat& page) {
  RankPulse pulse;
  pulse.rank = rank;
  pulse.stamp = page.monotonic_ns.load(std::memory_order_acquire);
  pulse.step = page.global_step.load(std::memory_order_relaxed);
  pulse.phase = page.phase.load(std::memory_order_relaxed);
  pulse.loaded = page.loaded.load(std::memory_order_relaxed);
  const events::Collective last = page.collective();
  pulse.collective = last.name;
  pulse.in_collective = last.under_way;
  return pulse;
}

class NodeWatch {
 public:
  NodeWatch(const LaunchSpec& spec, NodeLink& link, const Clock& clock)
      : spec_(spec), link_(link), clock_(clock), ending_(spec.grace_s) {}

  void start(const ConnectRank& connect);
  NodeAttempt run();

 private:
  struct Place {
    std::unique_ptr<Rank> rank;
    std::optional<double> finished_at;
    bool is_told = false;  // its end
  };

  void turn();
  void wait();
  void take_signals();
  void read_events();
  void look_for_the_dead();
  void heed(const NodeMessage& message);
  void write_all_stacks();
  void check_exits();
  void check_head();
  void tick();
  void terminate_all();
  void kill_all();
  void tell_end(Place& place);
  [[nodiscard]] bool is_over() const;

  const LaunchSpec& spec_;
  NodeLink& link_;
  const Clock& clock_;
  MemoryWatch memory_;

  // Destroyed from the last to the first: ranks die while orphans are kept and signals are blocked.
  SignalGuard signals_;
  OrphanKeeper orphans_;
  std::vector<Place> places_;

  int round_ = 1;
  double next_tick_ = 0;
  Ending ending_;
  std::optional<double> killed_at_;
  NodeAttempt outcome_;
};

void NodeWatch::start(const ConnectRank& connect) {
  make_folder(spec_.log_folder);
  for (int rank = spec_.first_rank(); rank < spec_.first_rank() + spec_.ranks_here(); ++rank) {
    const Fd socket = connect(rank);
    places_.push_back(
        {std::make_unique<Rank>(Rank::Start{spec_, signals_.child_mask()}, rank, socket)});
    log::get().debug("rank {} is process {}", rank, places_.back().rank->end().pid);
  }
}

NodeAttempt NodeWatch::run() {
  while (!is_over()) turn();
  for (Place& place : places_) tell_end(place);
  link_.send(NodeFinished{}, clock_.now());
  return outcome_;
}

// Nothing here waits but poll; whoever is not ready answers EAGAIN.
void NodeWatch::turn() {
  wait();
  look_for_the_dead();
  read_events();
  take_signals();  // the head is to hear of a failure before it hears of the stop that follows
  link_.serve(clock_.now(), [&](const NodeMessage& message) { heed(message); });
  check_head();
  check_exits();
  if (clock_.now() >= next_tick_) tick();
  ++round_;
}

void NodeWatch::wait() {
  std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
  if (link_.has_room()) {
    for (const Place& place : places_) place.rank->append_to(polls);
  }
  link_.append_to(polls);
  const double left = std::clamp(next_tick_ - clock_.now(), 0.0, kTickS);
  ::poll(polls.data(), polls.size(), static_cast<int>(std::ceil(left * 1000)));
}

void NodeWatch::take_signals() {
  for (const int signal : signals_.take()) {
    switch (ending_.ask(signal, clock_.now(), kNoLimit)) {
      case Ending::Demand::stop:
        log::get().info(
            "{}: all nodes are asked to save and to end; a second signal ends them at "
            "once",
            signal_name(signal));
        link_.send(StopAsked{signal, false}, clock_.now());
        terminate_all();
        break;
      case Ending::Demand::kill:
        link_.send(StopAsked{signal, true}, clock_.now());
        kill_all();
        break;
      case Ending::Demand::nothing: break;
    }
  }
}

// While the head does not take them, events stay in the pipes of the ranks.
void NodeWatch::read_events() {
  if (!link_.has_room()) return;
  const EventHandler forward = [&](int rank, const events::Event& event) {
    link_.send(RankEvent{rank, event}, clock_.now());
  };
  for (const Place& place : places_) {
    Rank& rank = *place.rank;
    const bool had_failed = rank.has_failed();
    rank.read_events(forward, round_);
    const auto report = rank.end().report;
    // A line that is no event is no event that could be sent on.
    if (!had_failed && report && rank.is_alive() && rank.is_blamed())
      forward(
          rank.number(),
          events::Failed{.rank = rank.number(), .kind = report->kind, .message = report->message});
  }
}

void NodeWatch::look_for_the_dead() {
  const EventHandler forward = [&](int rank, const events::Event& event) {
    link_.send(RankEvent{rank, event}, clock_.now());
  };
  for (Place& place : places_) {
    Rank& rank = *place.rank;
    if (!rank.is_alive()) continue;
    rank.reap(forward, round_);
    if (rank.is_alive()) continue;
    const RankEnd end = rank.end();
    if (end.signal == SIGKILL && !end.killed_by_us)
      rank.hint_at_memory(memory_.explain_kill(static_cast<double>(rank.peak_rss_kib()) * 1024));
    tell_end(place);
  }
}

void NodeWatch::tell_end(Place& place) {
  if (place.is_told) return;
  place.is_told = true;
  RankEnd end = place.rank->end();
  end.host = host_name();
  link_.send(RankEnded{std::move(end)}, clock_.now());
}

void NodeWatch::heed(const NodeMessage& message) {
  if (const auto* stop = std::get_if<StopRanks>(&message)) {
    ending_.follow(stop->signal, clock_.now(), kNoLimit);
    terminate_all();
  } else if (std::holds_alternative<KillRanks>(message)) {
    kill_all();
  } else if (std::holds_alternative<WriteStacks>(message)) {
    write_all_stacks();
  } else if (const auto* over = std::get_if<RunOver>(&message)) {
    outcome_.over = *over;
    kill_all();
  } else {
    log::get().warn("the head has said what makes no sense while ranks run; ignored");
  }
}

void NodeWatch::write_all_stacks() {
  std::vector<StackSource> sources;
  for (const Place& place : places_) {
    if (place.rank->is_alive()) sources.push_back(place.rank->stack_source());
  }
  write_stacks(spec_.log_folder, sources);
}

void NodeWatch::check_head() {
  if (!link_.lost() || outcome_.lost || outcome_.over) return;
  outcome_.lost = link_.lost();
  log::get().warn("the head is lost: {}; the ranks of this node are ended", *outcome_.lost);
  kill_all();
}

void NodeWatch::check_exits() {
  const double now = clock_.now();
  for (Place& place : places_) {
    if (!place.rank->is_alive() || !place.rank->said_finished()) continue;
    if (!place.finished_at) place.finished_at = now;
    if (now - *place.finished_at > kExitS) place.rank->kill();
  }
}

void NodeWatch::tick() {
  next_tick_ = clock_.now() + kTickS;
  NodePulses pulses;
  for (const Place& place : places_) {
    if (place.rank->is_alive())
      pulses.ranks.push_back(pulse_of(place.rank->number(), place.rank->page()));
  }
  if (!pulses.ranks.empty() && link_.has_room()) link_.send(pulses, clock_.now());
}

void NodeWatch::terminate_all() {
  for (const Place& place : places_) place.rank->terminate();
}

void NodeWatch::kill_all() {
  if (!killed_at_) killed_at_ = clock_.now();
  for (const Place& place : places_) place.rank->kill();
}

bool NodeWatch::is_over() const {
  const bool none_alive =
      std::ranges::none_of(places_, [](const Place& place) { return place.rank->is_alive(); });
  return none_alive || (killed_at_ && clock_.now() - *killed_at_ > kBurialS);
}

}  // namespace

NodeAttempt supervise_node(const LaunchSpec& spec, NodeLink& link, const ConnectRank& connect,
                           const Clock& clock) {
  ASSERT(spec.place.node > 0 && spec.place.node < spec.place.nodes);
  ASSERT(spec.world_size % spec.place.nodes == 0);
  NodeWatch watch(spec, link, clock);
  watch.start(connect);
  return watch.run();
}

}  // namespace trainctl::launch
