#include "launch/nodes/coordinator.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

#include <chrono>
#include <csignal>

namespace trainctl::launch {

void Coordinator::begin_attempt(const LaunchSpec& spec, double now) {
  for (const int rank : std::exchange(claimed_ranks_, {})) listener_.release({Role::rank, rank});
  arrivals_.clear();
  ++welcome_.attempt;
  nodes_.begin_attempt(welcome_, spec.hang_timeout_s, now);
}

void Coordinator::append_to(std::vector<pollfd>& polls) const {
  listener_.append_to(polls);
  nodes_.append_to(polls);
}

void Coordinator::serve(double now, int round, const EventHandler& on_event) {
  accept_arrivals(now);
  nodes_.serve(now, round, on_event);
  for (const int node : nodes_.take_disconnected()) listener_.release({Role::node, node});
}

// Returns true if a node has joined.
bool Coordinator::accept_arrivals(double now) {
  bool has_joined = false;
  listener_.serve(now);
  for (const std::string& warning : listener_.take_warnings())
    log::get().warn("{}", one_line(warning));
  for (Listener::Arrival& arrival : listener_.take_arrivals()) {
    const int number = arrival.claim.number;
    if (arrival.claim.role == Role::node) {
      nodes_.add_link(number, std::move(arrival.socket), arrival.peer, now);
      has_joined = true;
    } else {
      claimed_ranks_.push_back(number);
      arrivals_.push_back({number, std::move(arrival.socket)});
    }
  }
  return has_joined;
}

void Coordinator::end(const RunEnded& over, double timeout_s, const GiveUp& give_up) {
  constexpr int kTickMs = 50;
  const Clock& clock = steady_clock();
  const double until = clock.now() + timeout_s;
  nodes_.end(over, clock.now());
  while (nodes_.has_missing_nodes() && clock.now() < until && !(give_up && give_up())) {
    std::vector<pollfd> polls;
    listener_.append_to(polls);
    ::poll(polls.data(), polls.size(), kTickMs);
    if (accept_arrivals(clock.now())) nodes_.end(over, clock.now());
  }
}

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string ranks_text(int first, int number) {
  return number == 1 ? fmt::format("rank {}", first)
                     : fmt::format("ranks {} to {}", first, first + number - 1);
}

JoinRefusal config_refusal(const std::string& reason) {
  return {static_cast<int>(ErrorKind::config), reason, {}};
}

}  // namespace

RemoteNodes::RemoteNodes(JobFacts facts, const KeepaliveTimes& times)
    : facts_(std::move(facts)), times_(times) {
  for (int number = 1; number < facts_.nodes; ++number) nodes_.push_back({.number = number});
}

void RemoteNodes::begin_attempt(const Welcome& welcome, std::optional<double> hang_timeout_s,
                                double now) {
  welcome_ = welcome;
  is_open_ = true;
  ranks_.clear();
  stop_requests_.clear();
  ended_.clear();
  for (int rank = facts_.ranks_per_node; rank < facts_.nodes * facts_.ranks_per_node; ++rank)
    ranks_.push_back(std::make_unique<RemoteRank>(rank, hang_timeout_s));
  for (Node& node : nodes_) {
    if (!node.link) continue;
    node.link->reset_silence_timer(now);  // the link was not read since the last attempt
    this->welcome(node, now);
  }
}

void RemoteNodes::add_link(int node, Fd socket, const std::string& peer, double now) {
  ASSERT(node >= 1 && node < facts_.nodes);
  Node& slot = nodes_.at(static_cast<std::size_t>(node - 1));
  slot = {.number = node,
          .link = std::make_unique<NodeLink>(std::move(socket), times_, now),
          .peer = peer};
}

void RemoteNodes::append_to(std::vector<pollfd>& polls) const {
  for (const Node& node : nodes_) {
    if (node.link) node.link->append_to(polls);
  }
}

void RemoteNodes::serve(double now, int round, const EventHandler& on_event) {
  round_ = round;
  on_event_ = &on_event;
  for (Node& node : nodes_) {
    if (!node.link) continue;
    node.link->serve(now, [&](const NodeMessage& message) { handle(node, message, now); });
    if (!node.link->lost()) continue;
    if (node.is_leaving) {
      remove(node);
      continue;
    }
    const std::string who = node.host.empty() ? node.peer : printable(node.host);
    mark_lost(node,
              {static_cast<int>(ErrorKind::rank_failed),
               fmt::format("node {} ({}) is lost: {}", node.number, who, *node.link->lost())});
  }
  on_event_ = nullptr;
}

void RemoteNodes::handle(Node& node, const NodeMessage& message, double now) {
  const bool counts = node.is_busy && node.attempt == welcome_.attempt && !node.is_leaving;
  std::visit(Overloaded{[&](const NodeHello& hello) { handle_hello(node, hello, now); },
                        [&](const RankEvent& forwarded) {
                          RemoteRank* rank = counts ? rank_of(node, forwarded.rank) : nullptr;
                          if (rank == nullptr) return;
                          rank->add_event(forwarded.event, round_);
                          (*on_event_)(forwarded.rank, forwarded.event);
                        },
                        [&](const NodeHeartbeats& heartbeats) {
                          for (const RankHeartbeat& heartbeat : heartbeats.ranks) {
                            if (RemoteRank* rank = counts ? rank_of(node, heartbeat.rank) : nullptr)
                              rank->set_heartbeat(heartbeat);
                          }
                        },
                        [&](const RankEnded& ended) {
                          if (counts && rank_of(node, ended.end.rank) != nullptr)
                            handle_ended(ended);
                        },
                        [&](const StopRequested& asked) { stop_requests_.push_back(asked); },
                        [&](const NodeFinished&) {
                          node.is_busy = false;
                          if (node.attempt != welcome_.attempt) welcome(node, now);
                        },
                        [&](const NodeLeaves& leaves) { handle_leave(node, leaves); },
                        [&](const auto&) {
                          log::get().warn(
                              "ignored a message from node {}, because only node 0 may send it",
                              node.number);
                        }},
             message);
}

// A second hello is ignored.
void RemoteNodes::handle_hello(Node& node, const NodeHello& hello, double now) {
  if (!node.host.empty() || node.is_leaving) return;
  if (const auto mismatch = find_mismatch(node, hello)) return reject(node, *mismatch, now);
  node.host = hello.host.empty() ? node.peer : hello.host;
  log::get().info("node {} has joined: {} ({}), {}", node.number, printable(node.host),
                  printable(node.peer), ranks_text(hello.first_rank, hello.ranks));
  welcome(node, now);
}

std::optional<JoinRefusal> RemoteNodes::find_mismatch(const Node& node,
                                                      const NodeHello& hello) const {
  const int number = node.number;
  if (hello.version != facts_.version)
    return config_refusal(fmt::format(
        "node {} runs trainctl {}, node 0 runs {}\nhint: install the same version on all nodes",
        number, printable(hello.version), facts_.version));
  if (hello.accelerator != facts_.accelerator)
    return config_refusal(
        fmt::format("node {} uses accelerator '{}', node 0 uses '{}'\nhint: set the same "
                    "trainer.accelerator on all nodes",
                    number, printable(hello.accelerator), facts_.accelerator));
  if (hello.ranks != facts_.ranks_per_node)
    return config_refusal(
        fmt::format("node {} has {} device(s), node 0 has {}\nhint: set trainer.devices to the "
                    "number that all nodes have",
                    number, hello.ranks, facts_.ranks_per_node));
  if (hello.node != number || hello.first_rank != number * facts_.ranks_per_node)
    return config_refusal(
        fmt::format("node {0} must report number {0} and first rank {1}, got number {2} and "
                    "first rank {3}",
                    number, number * facts_.ranks_per_node, hello.node, hello.first_rank));
  if (hello.config == facts_.config) return std::nullopt;
  JoinRefusal other =
      config_refusal(fmt::format("node {} has a different config than node 0", number));
  other.run_dir = welcome_.run_dir;
  return other;
}

void RemoteNodes::welcome(Node& node, double now) {
  if (!is_open_ || node.host.empty() || node.is_busy || node.is_leaving) return;
  node.attempt = welcome_.attempt;
  node.is_busy = true;
  for (const auto& rank : ranks_) {
    if (rank_of(node, rank->number()) != nullptr) rank->mark_requested(node.host);
  }
  node.link->send(welcome_, now);
}

void RemoteNodes::reject(Node& node, const JoinRefusal& refusal, double now) {
  log::get().warn("rejected {}: {}", printable(node.peer), one_line(refusal.reason));
  node.link->send(refusal, now);
  node.link->close_sending();  // the other side closes after reading this
  node.is_leaving = true;
}

void RemoteNodes::handle_ended(const RankEnded& ended) {
  for (const auto& rank : ranks_) {
    if (rank->number() != ended.end.rank || !rank->is_alive()) continue;
    rank->record_exit(ended.end, round_);
    ended_.push_back(rank->end());
  }
}

// A node may leave before its hello; nothing should wait for ranks that will not start.
void RemoteNodes::handle_leave(Node& node, const NodeLeaves& leaves) {
  if (node.is_leaving) return;
  if (is_stop_code(leaves.kind)) return handle_stopped_leave(node, leaves);
  const std::string who = node.host.empty() ? node.peer : node.host;
  const FailureReport why{leaves.kind, fmt::format("node {} ({}) cannot take part in the run: {}",
                                                   node.number, printable(who), leaves.reason)};
  for (const auto& rank : ranks_) {
    const bool waits = is_open_ && !rank->has_end();
    if (waits && rank_of(node, rank->number()) != nullptr) rank->mark_lost(why, round_);
  }
  mark_lost(node, why);
}

// The node got a signal while it started its ranks: the job is asked to stop, nothing has failed.
void RemoteNodes::handle_stopped_leave(Node& node, const NodeLeaves& leaves) {
  const bool interrupted = leaves.kind == static_cast<int>(ErrorKind::interrupted);
  const ErrorKind kind = interrupted ? ErrorKind::interrupted : ErrorKind::terminated;
  log::get().info("node {} leaves the run: {}", node.number, one_line(leaves.reason));
  stop_requests_.push_back({interrupted ? SIGINT : SIGTERM, false});
  for (const auto& rank : ranks_) {
    if (rank_of(node, rank->number()) == nullptr || !rank->is_alive()) continue;
    rank->record_exit({.rank = rank->number(), .exit_code = static_cast<int>(kind)}, round_);
    ended_.push_back(rank->end());
  }
  close_link(node);
}

void RemoteNodes::mark_lost(Node& node, const FailureReport& why) {
  log::get().warn("{}", one_line(why.message));
  for (const auto& rank : ranks_) {
    if (rank_of(node, rank->number()) != nullptr && rank->is_alive()) rank->mark_lost(why, round_);
  }
  close_link(node);
}

void RemoteNodes::close_link(Node& node) {
  if (node.link->lost()) return remove(node);
  node.link->close_sending();  // the other side closes as well
  node.is_leaving = true;
}

void RemoteNodes::remove(Node& node) {
  const int number = node.number;
  disconnected_.push_back(number);
  node = {.number = number, .has_joined_before = true};
}

RemoteRank* RemoteNodes::rank_of(const Node& node, int rank) {
  const int first = node.number * facts_.ranks_per_node;
  if (rank < first || rank >= first + facts_.ranks_per_node) return nullptr;
  const auto at = static_cast<std::size_t>(rank - facts_.ranks_per_node);
  return at < ranks_.size() ? ranks_[at].get() : nullptr;
}

void RemoteNodes::send_to_busy(const NodeMessage& message, double now) {
  for (Node& node : nodes_) {
    if (node.link && node.is_busy) node.link->send(message, now);
  }
}

void RemoteNodes::stop(int signal, double now) {
  is_open_ = false;
  send_to_busy(StopRanks{signal}, now);
}

void RemoteNodes::kill(double now) {
  is_open_ = false;
  send_to_busy(KillRanks{}, now);
}

void RemoteNodes::request_stacks(double now) { send_to_busy(WriteStacks{}, now); }

void RemoteNodes::end(const RunEnded& over, double now) {
  using SystemClock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPatience{2000};
  is_open_ = false;
  ranks_.clear();
  for (Node& node : nodes_) {
    if (node.link && !node.is_leaving) node.link->send(over, now);
  }
  // With unread input, close() resets the connection, and the peer would lose the last message.
  const auto until = SystemClock::now() + kPatience;
  for (bool hung_up = false; SystemClock::now() < until;) {
    bool sent = true;
    std::vector<pollfd> polls;
    for (Node& node : nodes_) {
      if (!node.link) continue;
      node.link->reset_silence_timer(now);
      node.link->serve(now, [](const NodeMessage&) {});
      sent = sent && (node.link->has_sent_all() || node.link->lost());
      node.link->append_to(polls);
    }
    if (polls.empty()) break;
    if (sent && !std::exchange(hung_up, true)) {
      for (Node& node : nodes_) {
        if (node.link) node.link->close_sending();
      }
    }
    ::poll(polls.data(), polls.size(), 50);
  }
  for (Node& node : nodes_) {
    node.has_joined_before = node.has_joined_before || node.link != nullptr;
    node.link.reset();
  }
}

bool RemoteNodes::has_missing_nodes() const {
  return std::ranges::any_of(
      nodes_, [](const Node& node) { return !node.link && !node.has_joined_before; });
}

std::vector<std::string> RemoteNodes::missing() const {
  std::vector<std::string> texts;
  for (const Node& node : nodes_) {
    if (node.is_busy && node.attempt == welcome_.attempt) continue;
    const char* absent = node.has_joined_before ? "has left the run" : "has not joined";
    const char* what = node.link ? "is connected, but has not reported that it is ready" : absent;
    const int first = node.number * facts_.ranks_per_node;
    texts.push_back(fmt::format("node {} ({}) {}", node.number,
                                ranks_text(first, facts_.ranks_per_node), what));
  }
  return texts;
}

std::vector<StopRequested> RemoteNodes::take_stop_requests() {
  return std::exchange(stop_requests_, {});
}
std::vector<RankEnd> RemoteNodes::take_ended() { return std::exchange(ended_, {}); }
std::vector<int> RemoteNodes::take_disconnected() { return std::exchange(disconnected_, {}); }

}  // namespace trainctl::launch
