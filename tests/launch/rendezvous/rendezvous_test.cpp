#include "launch/rendezvous/rendezvous.hpp"

#include "base/error.hpp"
#include "launch/rendezvous/wire.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace trainctl::launch {
namespace {

constexpr Claim kRank2{Role::rank, 2};
constexpr Claim kRank3{Role::rank, 3};
constexpr Claim kNode1{Role::node, 1};

bool has_flag(const Fd& fd, int command, int flag) {
  return (::fcntl(fd.get(), command) & flag) != 0;
}

int option(const Fd& socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket.get(), level, name, &value, &size);
  return value;
}

/// Returns the local addresses that listen on that port, in the format of /proc.
std::vector<std::string> listening_addresses(std::uint16_t port) {
  const std::string ending = fmt::format(":{:04X}", port);
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line, slot, local, remote, state;
    while (std::getline(lines, line)) {
      std::istringstream(line) >> slot >> local >> remote >> state;
      if (state == "0A" && local.ends_with(ending)) found.push_back(local);
    }
  }
  return found;
}

std::size_t num_connections(const Listener& coordinator) {
  std::vector<pollfd> polls;
  coordinator.append_to(polls);
  return polls.size();
}

/// Returns the error of a node that the coordinator rejects until its time is over.
Error rejected_join(Listener& coordinator, JoinOptions request) {
  return thrown_within(2, ErrorKind::config, [&](double limit_s) {
    request.timeout_s = limit_s;
    auto joining = join_async(request);
    serve_until(coordinator, [&] { return is_ready(joining); });
    (void)joining.get();
  });
}

/// Joins and returns the answer of the coordinator.
Answer answer_to(Listener& coordinator, const Claim& claim) {
  RawPeer joiner(coordinator.endpoint());
  JoinHandshake handshake(join_options(coordinator, claim), make_nonce());
  run_handshake(coordinator, joiner, handshake);
  REQUIRE(handshake.answer());
  return *handshake.answer();
}

}  // namespace

TEST_CASE("Listener: a peer that knows the token arrives with its claim and connection") {
  Listener coordinator(two_node_options());
  for (const Claim& claim : {kRank2, kRank3, kNode1}) {
    auto joining = join_async(join_options(coordinator, claim));
    Listener::Arrival arrival = next_arrival(coordinator);
    const JoinedConnection joined = joining.get();
    CHECK(arrival.claim == claim);
    CHECK(joined.local_address == "127.0.0.1");
    CHECK(arrival.peer == to_text(endpoint_of(local_address(joined.socket))));
    CHECK(has_flag(arrival.socket, F_GETFL, O_NONBLOCK));
    CHECK_FALSE(has_flag(joined.socket, F_GETFL, O_NONBLOCK));
    for (const Fd* end : {&std::as_const(arrival.socket), &joined.socket}) {
      CHECK(has_flag(*end, F_GETFD, FD_CLOEXEC));
      CHECK(option(*end, IPPROTO_TCP, TCP_NODELAY) != 0);
      CHECK(option(*end, SOL_SOCKET, SO_KEEPALIVE) != 0);
    }
  }
  CHECK(coordinator.take_warnings().empty());
  CHECK(num_connections(coordinator) == 1);
}

TEST_CASE("join: works over IPv6") {
  Listener::Options options = two_node_options("::1");
  std::unique_ptr<Listener> coordinator;
  try {
    coordinator = std::make_unique<Listener>(options);
  } catch (const Error&) {
    skip("this machine has no IPv6");
  }
  CHECK_THAT(to_text(coordinator->endpoint()), StartsWith("[::1]:"));
  auto joining = join_async(join_options(*coordinator, kNode1));
  CHECK(next_arrival(*coordinator).claim == kNode1);
  CHECK(joining.get().local_address == "::1");
}

TEST_CASE("Listener: a peer with a different token gets no answer") {
  Listener coordinator(two_node_options());
  JoinOptions request = join_options(coordinator, kRank2);
  request.token = token_of(8);
  RawPeer peer(coordinator.endpoint());
  JoinHandshake handshake(request, make_nonce());
  run_handshake(coordinator, peer, handshake);
  CHECK(peer.is_closed());
  CHECK_FALSE(handshake.answer());
  const std::string warning = next_warning(coordinator);
  CHECK_THAT(warning, StartsWith(to_text(endpoint_of(local_address(peer.socket())))));
  CHECK_THAT(warning, Contains("token differs"));
  CHECK(coordinator.take_arrivals().empty());
}

TEST_CASE("join: a different token or run id is a config error, reported on both sides") {
  for (const bool is_token : {true, false}) {
    Listener coordinator(two_node_options());
    JoinOptions request = join_options(coordinator, kRank2);
    if (is_token) request.token = token_of(8);
    if (!is_token) request.run_id = "other";
    const Error error = rejected_join(coordinator, request);
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains(to_text(coordinator.endpoint())) && Contains("as rank 2") &&
                                 Contains("TRAINCTL_RDZV_TOKEN") && Contains("--rdzv-id"));
    const auto warnings = coordinator.take_warnings();
    REQUIRE_FALSE(warnings.empty());
    CHECK_THAT(
        warnings[0],
        Contains(is_token ? "token differs"
                          : "its run id is 'other', but the run of node 0 has the id 'run'"));
    CHECK(coordinator.take_arrivals().empty());
  }
}

TEST_CASE("Listener: a replayed handshake is rejected") {
  Listener coordinator(two_node_options());
  std::string sent_bytes;
  {
    RawPeer joiner(coordinator.endpoint());
    JoinHandshake handshake(join_options(coordinator, kRank2), make_nonce());
    sent_bytes = run_handshake(coordinator, joiner, handshake);
    REQUIRE(handshake.answer());
    CHECK(handshake.answer()->status == JoinStatus::accepted);
    CHECK(next_arrival(coordinator).claim == kRank2);
  }
  coordinator.release(kRank2);
  RawPeer again(coordinator.endpoint());
  again.send_bytes(sent_bytes);
  CHECK_THAT(next_warning(coordinator), Contains("token differs"));
  wait_until([&] { return again.receive().empty() && again.is_closed(); });
  CHECK(coordinator.take_arrivals().empty());
}

TEST_CASE("Listener: a peer that echoes the challenge is rejected") {
  Listener coordinator(two_node_options());
  RawPeer mirror(coordinator.endpoint());
  JoinHandshake handshake(join_options(coordinator, kRank2), make_nonce());
  mirror.send_bytes(handshake.take_output());
  std::string challenge;
  serve_until(coordinator, [&] { return !(challenge = mirror.receive()).empty(); });
  CHECK(challenge.size() == 4 + Nonce{}.size());
  mirror.send_bytes(challenge);
  CHECK_THAT(next_warning(coordinator), Contains("token differs"));
}

TEST_CASE("Listener: another protocol is rejected at the frame length") {
  Listener coordinator(two_node_options());
  for (const std::string_view bytes :
       {std::string_view("\0\0\0\0\2\0\0\0", 8),  // 8 GiB
        std::string_view("\xff\xff\xff\xff", 4), std::string_view("GET / HTTP/1.1\r\n\r\n")}) {
    RawPeer peer(coordinator.endpoint());
    peer.send_bytes(bytes);
    CHECK_THAT(next_warning(coordinator), Contains("not a message of trainctl"));
  }
}

TEST_CASE("Listener: a slow or silent peer is disconnected after five seconds") {
  Listener coordinator(two_node_options());
  RawPeer silent(coordinator.endpoint());
  RawPeer slow(coordinator.endpoint());
  JoinHandshake handshake(join_options(coordinator, kRank2), make_nonce());
  const std::string hello = handshake.take_output();
  serve_until(coordinator, [&] { return num_connections(coordinator) == 3; });
  for (std::size_t second = 0; second <= 5; ++second) {
    slow.send_bytes(hello.substr(second, 1));
    coordinator.serve(static_cast<double>(second));
    CHECK(num_connections(coordinator) == 3);
  }
  coordinator.serve(5.1);
  CHECK(num_connections(coordinator) == 1);
  const auto warnings = coordinator.take_warnings();
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0], Contains("within 5 s"));
  CHECK_THAT(warnings[1], Contains("within 5 s"));
  wait_until([&] { return slow.receive().empty() && slow.is_closed(); });
}

TEST_CASE("Listener: the number of unauthenticated connections is bounded, and others follow") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 64;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Listener::Options options = two_node_options();
  std::optional<Listener> coordinator;
  try {
    coordinator.emplace(options);
  } catch (...) {
    ::setrlimit(RLIMIT_NOFILE, &before);
    throw;
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  std::vector<RawPeer> peers;
  for (int i = 0; i < 40; ++i) peers.emplace_back(coordinator->endpoint());
  serve_until(*coordinator, [&] { return num_connections(*coordinator) == 32; });
  coordinator->serve(0);
  CHECK(num_connections(*coordinator) == 32);  // and not the listening socket
  serve_until(
      *coordinator, [&] { return num_connections(*coordinator) == 1 + 8; }, 6);
}

TEST_CASE("Listener: rejected connections cannot flood the log") {
  Listener coordinator(two_node_options());
  for (int i = 0; i < 30; ++i) {
    RawPeer peer(coordinator.endpoint());
    serve_until(
        coordinator, [&] { return num_connections(coordinator) == 2; }, 1);
    peer.close();
    serve_until(
        coordinator, [&] { return num_connections(coordinator) == 1; }, 1);
  }
  const auto first = coordinator.take_warnings();
  CHECK(first.size() == 8);
  CHECK_THAT(first[0], Contains("disconnected"));
  coordinator.serve(12);
  const auto rest = coordinator.take_warnings();
  REQUIRE(rest.size() == 1);
  CHECK_THAT(rest[0], StartsWith("22 more connections"));
}

TEST_CASE("Listener: a claim can be made once until it is released") {
  Listener coordinator(two_node_options());
  CHECK(answer_to(coordinator, kRank2).status == JoinStatus::accepted);
  const Listener::Arrival first = next_arrival(coordinator);
  const Answer second = answer_to(coordinator, kRank2);
  CHECK(second.status == JoinStatus::already_joined);
  CHECK_THAT(second.reason, Contains("rank 2 has already joined, from " + first.peer));
  CHECK_THAT(next_warning(coordinator), Contains("rank 2 has already joined"));
  CHECK(answer_to(coordinator, kNode1).status == JoinStatus::accepted);

  const Error error = rejected_join(coordinator, join_options(coordinator, kRank2));
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("already joined") && Contains("--node-rank"));

  coordinator.release(kRank2);
  CHECK(answer_to(coordinator, kRank2).status == JoinStatus::accepted);
}

TEST_CASE("join: retries a claim until it is released") {
  Listener coordinator(two_node_options());
  CHECK(answer_to(coordinator, kRank2).status == JoinStatus::accepted);
  next_arrival(coordinator);
  auto joining = join_async(join_options(coordinator, kRank2));
  next_warning(coordinator);
  coordinator.release(kRank2);
  CHECK(next_arrival(coordinator).claim == kRank2);
  CHECK(joining.get().socket.valid());
}

TEST_CASE("Listener: ranks of node 0 and ranks out of range cannot be claimed") {
  Listener coordinator(two_node_options());
  for (const Claim& claim : {Claim{Role::rank, 0}, Claim{Role::rank, 1}, Claim{Role::rank, 4},
                             Claim{Role::rank, 2'000'000'000}}) {
    const Answer answer = answer_to(coordinator, claim);
    CHECK(answer.status == JoinStatus::out_of_range);
    CHECK_THAT(answer.reason, Contains("this run has 4 ranks, and only ranks 2 to 3 can join"));
    CHECK_THAT(next_warning(coordinator), Contains(to_text(claim)));
  }
  for (const Claim& claim : {Claim{Role::node, 0}, Claim{Role::node, 2}}) {
    const Answer answer = answer_to(coordinator, claim);
    CHECK(answer.status == JoinStatus::out_of_range);
    CHECK_THAT(answer.reason, Contains("this run has 2 nodes, and only node 1 can join"));
    next_warning(coordinator);
  }
  auto joining = join_async(join_options(coordinator, {Role::rank, 9}));
  serve_until(coordinator, [&] { return is_ready(joining); });
  const Error error = thrown_by([&] { joining.get(); });
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("rank 9") && Contains("--nnodes"));
}

TEST_CASE("Listener: bytes after the handshake are left in the connection") {
  Listener coordinator(two_node_options());
  RawPeer joiner(coordinator.endpoint());
  JoinHandshake handshake(join_options(coordinator, kRank2), make_nonce());
  joiner.send_bytes(handshake.take_output());
  serve_until(coordinator, [&] {
    handshake.take(joiner.receive(handshake.bytes_needed()));
    return handshake.has_sent_proof();
  });
  joiner.send_bytes(handshake.take_output() + "the store protocol");
  const Listener::Arrival arrival = next_arrival(coordinator);
  std::array<char, 100> buffer;
  ssize_t count = -1;
  wait_until(
      [&] { return (count = ::recv(arrival.socket.get(), buffer.data(), buffer.size(), 0)) > 0; });
  CHECK(std::string(buffer.data(), static_cast<std::size_t>(count)) == "the store protocol");
}

TEST_CASE("rendezvous: two runs on one host do not interfere") {
  Listener one(two_node_options());
  Listener::Options options = two_node_options();
  options.token = token_of(9);
  Listener other(options);
  CHECK(one.endpoint().port != other.endpoint().port);
  auto first = join_async(join_options(one, kRank2));
  CHECK(next_arrival(one).claim == kRank2);
  JoinOptions request = join_options(other, kRank2);
  RawPeer lost(other.endpoint());
  JoinHandshake handshake(request, make_nonce());
  run_handshake(other, lost, handshake);
  CHECK(lost.is_closed());
  request.token = token_of(9);
  auto second = join_async(request);
  CHECK(next_arrival(other).claim == kRank2);
  CHECK(first.get().socket.valid());
  CHECK(second.get().socket.valid());
}

TEST_CASE("Listener: listens on exactly one address") {
  const Listener coordinator(two_node_options("localhost"));
  const auto addresses = listening_addresses(coordinator.endpoint().port);
  REQUIRE(addresses.size() == 1);
  const std::string address = addresses[0].substr(0, addresses[0].find(':'));
  CHECK(address == (address.size() == 8 ? "0100007F" : "00000000000000000000000001000000"));
}

}  // namespace trainctl::launch
