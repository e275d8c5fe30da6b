#include "launch/nodes/node_link.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::launch {
namespace {

struct SocketPair {
  Fd ours;
  Fd theirs;
};

SocketPair connected_sockets() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

void write_raw(const Fd& fd, const std::string& bytes) {
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

std::vector<NodeMessage> serve(NodeLink& link, double now) {
  std::vector<NodeMessage> messages;
  link.serve(now, [&](const NodeMessage& message) { messages.push_back(message); });
  return messages;
}

/// Reads until no data is left.
std::string drain(const Fd& fd) {
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t count = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

template <class Message>
Message round_trip(const Message& message) {
  const NodeMessage read = decode_node_message(encode(message));
  REQUIRE(std::holds_alternative<Message>(read));
  return std::get<Message>(read);
}

std::string decode_error(const std::string& line) {
  try {
    decode_node_message(line);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unexpected);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("encode: messages between nodes survive a round trip") {
  const NodeHello hello = round_trip(NodeHello{.node = 3,
                                               .first_rank = 12,
                                               .ranks = 4,
                                               .host = "far \"away\"",
                                               .version = "0.1",
                                               .config = "ab",
                                               .accelerator = "gpu"});
  CHECK(hello.node == 3);
  CHECK(hello.first_rank == 12);
  CHECK(hello.ranks == 4);
  CHECK(hello.host == "far \"away\"");
  CHECK(hello.accelerator == "gpu");

  const RankEvent event = round_trip(RankEvent{5, events::Warning{"a \"quoted\" \\ word\n", ""}});
  CHECK(event.rank == 5);
  CHECK(std::get<events::Warning>(event.event).message == "a \"quoted\" \\ word\n");

  const NodeHeartbeats heartbeats =
      round_trip(NodeHeartbeats{{{4, 17, 1, 123456789012345, 9}, {5, 18, 0, 0, 0}}});
  REQUIRE(heartbeats.ranks.size() == 2);
  CHECK(heartbeats.ranks[0].stamp == 123456789012345);
  CHECK(heartbeats.ranks[1].step == 18);

  const Welcome welcome = round_trip(Welcome{"/runs/a", "{\"pid\": 3}\n", 2});
  CHECK(welcome.run_dir == "/runs/a");
  CHECK(welcome.lock_text == "{\"pid\": 3}\n");
  CHECK(welcome.attempt == 2);

  CHECK(round_trip(StopRanks{SIGTERM}).signal == SIGTERM);
  CHECK(round_trip(StopRequested{SIGINT, true}).at_once);
  CHECK(round_trip(JoinRefusal{2, "no", "/runs/a"}).reason == "no");
  CHECK(round_trip(RunEnded{75, "stopped", "by SIGTERM"}).exit_code == 75);
  CHECK(round_trip(NodeLeaves{11, "no folder"}).kind == 11);
  round_trip(Keepalive{});
  round_trip(NodeFinished{});
  round_trip(KillRanks{});
  round_trip(WriteStacks{});
}

TEST_CASE("NodeLink: a message that was put back is handled first in the next serve call") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {}, 0);
  write_raw(ends.theirs, encode(Welcome{"/runs/a", "", 1}) + "\n" + encode(StopRanks{15}) + "\n");
  bool welcomed = false;
  link.serve(0, [&](const NodeMessage& message) {
    if (std::exchange(welcomed, true)) link.put_back(message);
  });
  write_raw(ends.theirs, encode(KillRanks{}) + "\n");
  const auto next = serve(link, 0);
  REQUIRE(next.size() == 2);
  CHECK(std::holds_alternative<StopRanks>(next[0]));
  CHECK(std::holds_alternative<KillRanks>(next[1]));
  CHECK(serve(link, 0).empty());
}

TEST_CASE("encode: the exit of a rank keeps all fields") {
  const RankEnd end = round_trip(RankEnded{{.rank = 2,
                                            .host = "far",
                                            .pid = 77,
                                            .signal = SIGKILL,
                                            .dumped_core = true,
                                            .sigterm_sent = true,
                                            .report = FailureReport{9, "bad row"},
                                            .memory_hint = " (memory)",
                                            .step = 41,
                                            .phase = "train",
                                            .collective = "all-reduce"}})
                          .end;
  CHECK(end.rank == 2);
  CHECK(end.host == "far");
  CHECK(end.pid == 77);
  CHECK(end.signal == SIGKILL);
  CHECK_FALSE(end.exit_code);
  CHECK(end.dumped_core);
  CHECK_FALSE(end.finished);
  CHECK(end.sigterm_sent);
  CHECK(end.report->message == "bad row");
  CHECK(end.memory_hint == " (memory)");
  CHECK(end.step == 41);
  CHECK(end.phase == "train");
  CHECK(end.collective == "all-reduce");
  CHECK_FALSE(round_trip(RankEnded{{.rank = 1, .exit_code = 75}}).end.report);
}

TEST_CASE("decode_node_message: invalid lines and rank numbers are rejected") {
  for (const char* line :
       {"", "{", "[]", "3", "{}", R"({"message": 3})", R"({"message": "sing"})",
        R"({"message": "welcome"})",
        R"({"message": "welcome", "run_dir": 3, "lock_text": "", "attempt": 1})",
        R"({"message": "stop", "signal": "15"})",
        R"({"message": "stop_requested", "signal": 1, "at_once": 1})",
        R"({"message": "event", "rank": -1, "event": {"event": "warning"}})",
        R"({"message": "event", "rank": 1, "event": {"event": "nothing"}})",
        R"({"message": "heartbeats", "ranks": 3})", R"({"message": "heartbeats", "ranks": [3]})",
        R"({"message": "ended", "rank": 99999999})"}) {
    INFO(line);
    CHECK_THAT(decode_error(line), Contains("an invalid message ("));
  }
}

TEST_CASE("NodeLink: messages arrive in order in pieces of any size") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {}, 0);
  const std::string bytes =
      encode(StopRanks{15}) + "\n" + encode(Keepalive{}) + "\n" + encode(KillRanks{}) + "\n";
  std::vector<NodeMessage> messages;
  for (const char byte : bytes) {
    write_raw(ends.theirs, std::string(1, byte));
    for (NodeMessage& message : serve(link, 0)) messages.push_back(std::move(message));
  }
  REQUIRE(messages.size() == 2);  // the link handles beats itself
  CHECK(std::get<StopRanks>(messages[0]).signal == 15);
  CHECK(std::holds_alternative<KillRanks>(messages[1]));
  CHECK_FALSE(link.lost());
}

TEST_CASE("NodeLink: an idle link sends keepalives, and a silent peer is lost") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {.interval_s = 5, .timeout_s = 15}, 100);
  serve(link, 104);
  CHECK(drain(ends.theirs).empty());
  serve(link, 105);
  CHECK(drain(ends.theirs) == encode(Keepalive{}) + "\n");
  link.send(KillRanks{}, 108);
  drain(ends.theirs);
  serve(link, 112);  // 4 s after the last message
  CHECK(drain(ends.theirs).empty());

  write_raw(ends.theirs, encode(Keepalive{}) + "\n");
  serve(link, 113);
  serve(link, 128);
  CHECK_FALSE(link.lost());
  serve(link, 128.5);
  REQUIRE(link.lost());
  CHECK_THAT(*link.lost(), Contains("sent nothing for 15"));
}

TEST_CASE("NodeLink: the silence timer can be reset, and its timeout can be changed") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {.interval_s = 5, .timeout_s = 15}, 0);
  link.reset_silence_timer(100);
  serve(link, 110);
  CHECK_FALSE(link.lost());
  link.set_silence_timeout(300);
  serve(link, 390);
  CHECK_FALSE(link.lost());
  serve(link, 401);
  CHECK(link.lost());
}

TEST_CASE("NodeLink: a protocol violation closes the link and is quoted in the reason") {
  SocketPair ends = connected_sockets();
  NodeLink garbled(std::move(ends.ours), {}, 0);
  write_raw(ends.theirs, "GET / HTTP/1.1\r\n" + encode(KillRanks{}) + "\n");
  CHECK(serve(garbled, 0).empty());  // messages after the violation are dropped too
  REQUIRE(garbled.lost());
  CHECK_THAT(*garbled.lost(), Contains("GET / HTTP"));

  SocketPair others = connected_sockets();
  NodeLink endless(std::move(others.ours), {}, 0);
  const std::string piece(10'000, 'x');
  for (int i = 0; i < 200 && !endless.lost(); ++i) {
    write_raw(others.theirs, piece);
    serve(endless, 0);
  }
  REQUIRE(endless.lost());
  CHECK_THAT(*endless.lost(), Contains("1 MiB"));
}

TEST_CASE("NodeLink: the last message before the peer closed is handled") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {}, 0);
  write_raw(ends.theirs, encode(RunEnded{7, "failed", "rank 1"}) + "\n");
  ends.theirs.reset();
  link.send(Keepalive{}, 0);
  const auto messages = serve(link, 0);
  REQUIRE(messages.size() == 1);
  CHECK(std::get<RunEnded>(messages[0]).exit_code == 7);
  CHECK_FALSE(link.lost());
  serve(link, 0);
  REQUIRE(link.lost());
  CHECK_THAT(*link.lost(), Contains("closed"));
}

TEST_CASE("NodeLink: output that the peer does not read is bounded") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {.interval_s = 5, .timeout_s = 1e9}, 0);
  const RankEvent large{0, events::Warning{std::string(100'000, 'x'), ""}};
  int sent = 0;
  while (link.has_room() && sent < 1000) {
    link.send(large, 0);
    ++sent;
  }
  CHECK(sent < 100);
  CHECK_FALSE(link.lost());
  for (int i = 0; i < 1000 && !link.lost(); ++i) link.send(large, 0);
  REQUIRE(link.lost());
  CHECK_THAT(*link.lost(), Contains("does not read"));
}

TEST_CASE("NodeLink: queued output is sent when the peer reads") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {}, 0);
  const RankEvent large{0, events::Warning{std::string(900'000, 'x'), ""}};
  link.send(large, 0);
  link.send(NodeFinished{}, 0);
  std::string bytes;
  for (int i = 0; i < 1000 && !bytes.ends_with(encode(NodeFinished{}) + "\n"); ++i) {
    bytes += drain(ends.theirs);
    serve(link, 0);
  }
  CHECK(bytes == encode(large) + "\n" + encode(NodeFinished{}) + "\n");
  CHECK(link.has_sent_all());
}

TEST_CASE("NodeLink: exceptions of the handler are passed on") {
  SocketPair ends = connected_sockets();
  NodeLink link(std::move(ends.ours), {}, 0);
  write_raw(ends.theirs, encode(KillRanks{}) + "\n");
  const auto full = [](const NodeMessage&) { throw Error(ErrorKind::resource, "disk full"); };
  CHECK_THROWS_WITH(link.serve(0, full), "disk full");
  CHECK_FALSE(link.lost());
}

}  // namespace trainctl::launch
