#include "base/error.hpp"
#include "launch/nodes/coordinator.hpp"
#include "support/catch.hpp"

#include <sys/socket.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::launch {
namespace {

/// Three nodes of two ranks, as the coordinator sees them; the test has the links' other ends.
class Nodes {
 public:
  Nodes() { remote.begin_attempt(welcome, {}, now); }

  /// Returns the other end of a node's link.
  NodeLink connect(int node) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    remote.add_link(node, Fd(ends[0]), "10.0.0.7:1234", now);
    return {Fd(ends[1]), KeepaliveTimes{}, now};
  }

  NodeLink join(int node) {
    NodeLink link = connect(node);
    link.send(hello(node), now);
    serve();
    REQUIRE(received<Welcome>(link));
    return link;
  }

  static NodeHello hello(int node) {
    return {node, node * 2, 2, "host" + std::to_string(node), "1.0", "digest", "cpu"};
  }

  void serve() {
    remote.serve(now, ++round, [this](int rank, const events::Event& event) {
      events.emplace_back(rank, event);
    });
  }

  /// Returns the first message of that type among those that have arrived.
  template <class Message>
  std::optional<Message> received(NodeLink& link) const {
    std::optional<Message> found;
    link.serve(now, [&](const NodeMessage& message) {
      if (const auto* one = std::get_if<Message>(&message); one != nullptr && !found) found = *one;
    });
    return found;
  }

  [[nodiscard]] const RemoteRank& rank(int number) const {
    return *remote.ranks().at(static_cast<std::size_t>(number - 2));
  }

  std::string rejection_of(const NodeHello& message) {
    NodeLink link = connect(1);
    link.send(message, now);
    serve();
    const auto refused = received<JoinRefusal>(link);
    CHECK_FALSE(rank(2).is_alive());
    return refused ? refused->reason : "accepted";
  }

  double now = 50;
  int round = 0;
  Welcome welcome{"/runs/a", "mark", 1};
  RemoteNodes remote{{3, 2, "1.0", "digest", "cpu"}, {.interval_s = 5, .timeout_s = 15}};
  std::vector<std::pair<int, events::Event>> events;
};

}  // namespace

TEST_CASE("RemoteNodes: a joined node is asked to start its ranks in the run folder") {
  Nodes nodes;
  REQUIRE(nodes.remote.ranks().size() == 4);
  CHECK_FALSE(nodes.rank(2).is_alive());
  CHECK_FALSE(nodes.rank(2).has_end());
  CHECK(nodes.remote.missing() == std::vector<std::string>{"node 1 (ranks 2 to 3) has not joined",
                                                           "node 2 (ranks 4 to 5) has not joined"});
  NodeLink link = nodes.connect(2);
  link.send(Nodes::hello(2), nodes.now);
  nodes.serve();
  const auto welcome = nodes.received<Welcome>(link);
  REQUIRE(welcome);
  CHECK(welcome->run_dir == "/runs/a");
  CHECK(welcome->lock_text == "mark");
  CHECK(nodes.rank(4).is_alive());
  CHECK(nodes.rank(5).end().host == "host2");
  CHECK_FALSE(nodes.rank(3).is_alive());
  CHECK(nodes.remote.missing() == std::vector<std::string>{"node 1 (ranks 2 to 3) has not joined"});
}

TEST_CASE("RemoteNodes: events, heartbeats and exits of a node apply only to its own ranks") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  link.send(RankEvent{3, events::Hello{.rank = 3}}, nodes.now);
  link.send(RankEvent{5, events::Hello{.rank = 5}}, nodes.now);  // rank 5 is on another node
  link.send(NodeHeartbeats{{{3, 41, static_cast<int>(events::Phase::train), 999, 0}}}, nodes.now);
  nodes.serve();
  REQUIRE(nodes.events.size() == 1);
  CHECK(nodes.events[0].first == 3);
  CHECK(nodes.rank(3).has_sent_hello());
  CHECK_FALSE(nodes.rank(5).has_sent_hello());
  CHECK(nodes.rank(3).end().step == 41);
  CHECK(nodes.rank(3).end().phase == "train");

  link.send(RankEnded{{.rank = 3, .pid = 7, .signal = SIGKILL, .step = 42, .phase = "train"}},
            nodes.now);
  nodes.serve();
  CHECK_FALSE(nodes.rank(3).is_alive());
  CHECK(nodes.rank(3).has_failed());
  CHECK(nodes.rank(3).end().step == 42);
  CHECK(nodes.rank(3).end().host == "host1");
  CHECK(nodes.rank(3).end().seen_in_round == nodes.round);
  REQUIRE(nodes.remote.take_ended().size() == 1);
  CHECK(nodes.remote.take_ended().empty());
}

TEST_CASE("RemoteNodes: the error that a rank reported remains its reason") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  link.send(RankEvent{2, events::Failed{2, 9, "bad row", 17, events::Phase::train}}, nodes.now);
  link.send(RankEnded{{.rank = 2, .pid = 7, .exit_code = 9}}, nodes.now);
  nodes.serve();
  const RankEnd end = nodes.rank(2).end();
  CHECK(end.report->message == "bad row");
  CHECK(end.exit_code == 9);
  CHECK(end.step == 17);
}

TEST_CASE("RemoteNodes: a node that differs is rejected with the difference, and can join later") {
  Nodes nodes;
  NodeHello other = Nodes::hello(1);
  other.version = "0.9";
  CHECK_THAT(nodes.rejection_of(other), Contains("0.9") && Contains("1.0"));
  other = Nodes::hello(1);
  other.ranks = 4;
  CHECK_THAT(nodes.rejection_of(other), Contains("4 device") && Contains("trainer.devices"));
  other = Nodes::hello(1);
  other.accelerator = "gpu";
  CHECK_THAT(nodes.rejection_of(other), Contains("'gpu'") && Contains("'cpu'"));
  other = Nodes::hello(1);
  other.first_rank = 4;
  CHECK_THAT(nodes.rejection_of(other), Contains("and first rank 4"));
  other = Nodes::hello(1);
  other.config = "another";
  CHECK_THAT(nodes.rejection_of(other), Contains("a different config"));
  CHECK(nodes.rejection_of(Nodes::hello(2)) != "accepted");
  nodes.join(1);
}

TEST_CASE("RemoteNodes: a closed connection fails the ranks of the node, which may join again") {
  Nodes nodes;
  {
    NodeLink link = nodes.join(1);
    link.send(RankEvent{2, events::Hello{.rank = 2, .pid = 7}}, nodes.now);
    nodes.serve();
  }
  nodes.serve();
  CHECK(nodes.rank(2).end().pid == 7);
  CHECK(nodes.rank(2).end().started);
  CHECK_FALSE(nodes.rank(4).end().started);
  for (const int rank : {2, 3}) {
    CHECK_FALSE(nodes.rank(rank).is_alive());
    const RankEnd end = nodes.rank(rank).end();
    REQUIRE(end.report);
    CHECK(end.report->kind == 7);
    CHECK(end.node_lost);
    CHECK_FALSE(lost_peer(end));
    CHECK_THAT(end.report->message, Contains("node 1 (host1) is lost: its connection was closed"));
  }
  CHECK(nodes.remote.take_disconnected() == std::vector<int>{1});
  CHECK(nodes.remote.missing().at(0) == "node 1 (ranks 2 to 3) has left the run");
}

TEST_CASE("RemoteNodes: a node is lost after three missed keepalives") {
  Nodes nodes;
  NodeLink silent = nodes.join(1);
  NodeLink loud = nodes.join(2);
  for (int i = 0; i < 4; ++i) {
    nodes.now += 5;
    loud.send(Keepalive{}, nodes.now);
    nodes.serve();
  }
  CHECK_FALSE(nodes.rank(2).is_alive());
  CHECK_THAT(nodes.rank(2).end().report->message, Contains("sent nothing for 20"));
  CHECK(nodes.rank(4).is_alive());
}

TEST_CASE("RemoteNodes: a node that cannot take part ends the job with its reason") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  link.send(NodeLeaves{11, "it does not see /runs/a"}, nodes.now);
  nodes.serve();
  const RankEnd end = nodes.rank(2).end();
  CHECK(end.report->kind == 11);
  CHECK_FALSE(end.node_lost);
  CHECK_THAT(end.report->message, Contains("does not see /runs/a"));
}

TEST_CASE("RemoteNodes: a node that fails before its hello ends the job with its reason") {
  Nodes nodes;
  NodeLink link = nodes.connect(1);
  link.send(NodeLeaves{11, "it has no GPU"}, nodes.now);
  nodes.serve();
  for (const int rank : {2, 3}) {
    CHECK(nodes.rank(rank).has_failed());
    const RankEnd end = nodes.rank(rank).end();
    CHECK_FALSE(end.started);
    REQUIRE(end.report);
    CHECK(end.report->kind == 11);
    CHECK_THAT(end.report->message, Contains("node 1 (10.0.0.7:1234)") && Contains("has no GPU"));
  }
  CHECK_FALSE(nodes.rank(4).has_end());
}

TEST_CASE(
    "RemoteNodes: a node that leaves because of a stop signal stops the job without a failure") {
  const std::vector<std::pair<int, int>> kinds{{130, SIGINT}, {143, SIGTERM}, {75, SIGTERM}};
  for (const auto& [kind, signal] : kinds) {
    Nodes nodes;
    NodeLink link = nodes.join(1);
    link.send(NodeLeaves{kind, "stopped while it joined"}, nodes.now);
    nodes.serve();
    CHECK_FALSE(nodes.rank(2).is_alive());
    CHECK_FALSE(nodes.rank(2).has_failed());
    CHECK(stop_signal_of(nodes.rank(2).end()) == signal);
    CHECK(nodes.remote.take_ended().size() == 2);
    const auto asked = nodes.remote.take_stop_requests();
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].signal == signal);
  }
}

TEST_CASE(
    "RemoteNodes: stop, kill and stack requests reach nodes that run ranks, which report stop "
    "signals") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  nodes.remote.request_stacks(nodes.now);
  CHECK(nodes.received<WriteStacks>(link));
  nodes.remote.stop(SIGTERM, nodes.now);
  CHECK(nodes.received<StopRanks>(link)->signal == SIGTERM);
  nodes.remote.kill(nodes.now);
  CHECK(nodes.received<KillRanks>(link));
  link.send(StopRequested{SIGINT, false}, nodes.now);
  nodes.serve();
  const auto asked = nodes.remote.take_stop_requests();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].signal == SIGINT);

  NodeLink late = nodes.connect(2);
  late.send(Nodes::hello(2), nodes.now);
  nodes.serve();
  CHECK_FALSE(nodes.received<Welcome>(late));  // the attempt is ending
}

TEST_CASE("RemoteNodes: a further attempt starts on a node after its previous ranks have exited") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  nodes.remote.stop(0, nodes.now);
  nodes.now += 200;  // the link was not read in the meantime
  nodes.welcome.attempt = 2;
  nodes.remote.begin_attempt(nodes.welcome, {}, nodes.now);
  link.send(RankEnded{{.rank = 2, .pid = 7, .signal = SIGKILL}},
            nodes.now);  // it belongs to attempt 1
  nodes.serve();
  CHECK_FALSE(nodes.rank(2).has_end());
  CHECK_FALSE(nodes.received<Welcome>(link));
  link.send(NodeFinished{}, nodes.now);
  nodes.serve();
  const auto welcome = nodes.received<Welcome>(link);
  REQUIRE(welcome);
  CHECK(welcome->attempt == 2);
  CHECK(nodes.rank(2).is_alive());
}

TEST_CASE("RemoteNodes: all nodes receive the result of the run") {
  Nodes nodes;
  NodeLink link = nodes.join(1);
  std::optional<RunEnded> over;
  std::thread other([&] {
    while (!link.lost() && !over) {
      link.serve(nodes.now, [&](const NodeMessage& message) {
        if (const auto* one = std::get_if<RunEnded>(&message)) over = *one;
      });
      std::this_thread::yield();
    }
    link.close_sending();
  });
  nodes.remote.end({7, "failed", "rank 1 failed"}, nodes.now);
  other.join();
  REQUIRE(over);
  CHECK(over->exit_code == 7);
  CHECK(over->message == "rank 1 failed");
}

}  // namespace trainctl::launch
