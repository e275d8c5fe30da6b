#include "launch/rendezvous/rendezvous.hpp"

#include "base/error.hpp"
#include "launch/rendezvous/wire.hpp"
#include "launch/strangers.hpp"
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
std::vector<std::string> listened_on(std::uint16_t port) {
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

std::size_t under_way(const Listener& head) {
  std::vector<pollfd> polls;
  head.append_to(polls);
  return polls.size();
}

/// Returns the error of a node that the coordinator rejects until its time is over.
Error refused_join(Listener& head, Join request) {
  return thrown_within(2, ErrorKind::config, [&](double limit_s) {
    request.timeout_s = limit_s;
    auto joining = join_aside(request);
    serve_until(head, [&] { return is_ready(joining); });
    (void)joining.get();
  });
}

/// Joins and returns the answer of the coordinator.
Answer answer_to(Listener& head, const Claim& claim) {
  Stranger joiner(head.endpoint());
  JoinHandshake handshake(request_to(head, claim), make_nonce());
  introduce(head, joiner, handshake);
  REQUIRE(handshake.answer());
  return *handshake.answer();
}

}  // namespace

TEST_CASE("who knows the token arrives with its claim and a connection") {
  Listener head(head_of_two());
  for (const Claim& claim : {kRank2, kRank3, kNode1}) {
    auto joining = join_aside(request_to(head, claim));
    Listener::Arrival arrival = arrival_at(head);
    const Joined joined = joining.get();
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
  CHECK(head.take_refusals().empty());
  CHECK(under_way(head) == 1);
}

TEST_CASE("a run is joined over IPv6 as well") {
  Listener::Options options = head_of_two("::1");
  std::unique_ptr<Listener> head;
  try {
    head = std::make_unique<Listener>(options);
  } catch (const Error&) {
    skip("this machine has no IPv6");
  }
  CHECK_THAT(to_text(head->endpoint()), StartsWith("[::1]:"));
  auto joining = join_aside(request_to(*head, kNode1));
  CHECK(arrival_at(*head).claim == kNode1);
  CHECK(joining.get().local_address == "::1");
}

TEST_CASE("who has another token is turned away without a word") {
  Listener head(head_of_two());
  Join request = request_to(head, kRank2);
  request.token = token_of(8);
  Stranger stranger(head.endpoint());
  JoinHandshake handshake(request, make_nonce());
  introduce(head, stranger, handshake);
  CHECK(stranger.is_cut());
  CHECK_FALSE(handshake.answer());
  const std::string refusal = refusal_of(head);
  CHECK_THAT(refusal, StartsWith(to_text(endpoint_of(local_address(stranger.socket())))));
  CHECK_THAT(refusal, Contains("token is different"));
  CHECK(head.take_arrivals().empty());
}

TEST_CASE("another token or run id is a mistake in what was given, told on both sides") {
  for (const bool is_token : {true, false}) {
    Listener head(head_of_two());
    Join request = request_to(head, kRank2);
    if (is_token) request.token = token_of(8);
    if (!is_token) request.run_id = "other";
    const Error error = refused_join(head, request);
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains(to_text(head.endpoint())) && Contains("as rank 2") &&
                                 Contains("TRAINCTL_RDZV_TOKEN") && Contains("--rdzv-id"));
    const auto refusals = head.take_refusals();
    REQUIRE_FALSE(refusals.empty());
    CHECK_THAT(refusals[0],
               Contains(is_token ? "token is different" : "run 'other', but this is run 'run'"));
    CHECK(head.take_arrivals().empty());
  }
}

TEST_CASE("what one connection has said is worth nothing in another") {
  Listener head(head_of_two());
  std::string said;
  {
    Stranger joiner(head.endpoint());
    JoinHandshake handshake(request_to(head, kRank2), make_nonce());
    said = introduce(head, joiner, handshake);
    REQUIRE(handshake.answer());
    CHECK(handshake.answer()->verdict == Verdict::welcome);
    CHECK(arrival_at(head).claim == kRank2);
  }
  head.release(kRank2);
  Stranger again(head.endpoint());
  again.say(said);
  CHECK_THAT(refusal_of(head), Contains("token is different"));
  wait_until([&] { return again.hear().empty() && again.is_cut(); });
  CHECK(head.take_arrivals().empty());
}

TEST_CASE("who gives the head's own words back proves nothing") {
  Listener head(head_of_two());
  Stranger mirror(head.endpoint());
  JoinHandshake handshake(request_to(head, kRank2), make_nonce());
  mirror.say(handshake.take_output());
  std::string challenge;
  serve_until(head, [&] { return !(challenge = mirror.hear()).empty(); });
  CHECK(challenge.size() == 4 + Nonce{}.size());
  mirror.say(challenge);
  CHECK_THAT(refusal_of(head), Contains("token is different"));
}

TEST_CASE("what is no handshake is cut at its length") {
  Listener head(head_of_two());
  for (const std::string_view bytes :
       {std::string_view("\0\0\0\0\2\0\0\0", 8),  // 8 GiB
        std::string_view("\xff\xff\xff\xff", 4), std::string_view("GET / HTTP/1.1\r\n\r\n")}) {
    Stranger stranger(head.endpoint());
    stranger.say(bytes);
    CHECK_THAT(refusal_of(head), Contains("not a frame of 1 to 512 bytes"));
  }
}

TEST_CASE("who speaks slowly or not at all has five seconds") {
  Listener head(head_of_two());
  Stranger silent(head.endpoint());
  Stranger slow(head.endpoint());
  JoinHandshake handshake(request_to(head, kRank2), make_nonce());
  const std::string hello = handshake.take_output();
  serve_until(head, [&] { return under_way(head) == 3; });
  for (std::size_t second = 0; second <= 5; ++second) {
    slow.say(hello.substr(second, 1));
    head.serve(static_cast<double>(second));
    CHECK(under_way(head) == 3);
  }
  head.serve(5.1);
  CHECK(under_way(head) == 1);
  const auto refusals = head.take_refusals();
  REQUIRE(refusals.size() == 2);
  CHECK_THAT(refusals[0], Contains("within 5 s"));
  CHECK_THAT(refusals[1], Contains("within 5 s"));
  wait_until([&] { return slow.hear().empty() && slow.is_cut(); });
}

TEST_CASE("a bounded number of strangers is listened to, and the next in turn") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 64;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Listener::Options options = head_of_two();
  std::optional<Listener> head;
  try {
    head.emplace(options);
  } catch (...) {
    ::setrlimit(RLIMIT_NOFILE, &before);
    throw;
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 40; ++i) strangers.emplace_back(head->endpoint());
  serve_until(*head, [&] { return under_way(*head) == 32; });
  head->serve(0);
  CHECK(under_way(*head) == 32);  // and not the listening socket
  serve_until(
      *head, [&] { return under_way(*head) == 1 + 8; }, 6);
}

TEST_CASE("strangers cannot flood the log") {
  Listener head(head_of_two());
  for (int i = 0; i < 30; ++i) {
    Stranger stranger(head.endpoint());
    serve_until(
        head, [&] { return under_way(head) == 2; }, 1);
    stranger.hang_up();
    serve_until(
        head, [&] { return under_way(head) == 1; }, 1);
  }
  const auto first = head.take_refusals();
  CHECK(first.size() == 8);
  CHECK_THAT(first[0], Contains("disconnected"));
  head.serve(12);
  const auto rest = head.take_refusals();
  REQUIRE(rest.size() == 1);
  CHECK_THAT(rest[0], StartsWith("22 more connections"));
}

TEST_CASE("a claim is taken until it is released") {
  Listener head(head_of_two());
  CHECK(answer_to(head, kRank2).verdict == Verdict::welcome);
  const Listener::Arrival first = arrival_at(head);
  const Answer second = answer_to(head, kRank2);
  CHECK(second.verdict == Verdict::taken);
  CHECK_THAT(second.reason, Contains("rank 2 has already joined, from " + first.peer));
  CHECK_THAT(refusal_of(head), Contains("rank 2 has already joined"));
  CHECK(answer_to(head, kNode1).verdict == Verdict::welcome);

  const Error error = refused_join(head, request_to(head, kRank2));
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("already joined") && Contains("--node-rank"));

  head.release(kRank2);
  CHECK(answer_to(head, kRank2).verdict == Verdict::welcome);
}

TEST_CASE("who waits for a claim that is taken gets it once it is released") {
  Listener head(head_of_two());
  CHECK(answer_to(head, kRank2).verdict == Verdict::welcome);
  arrival_at(head);
  auto joining = join_aside(request_to(head, kRank2));
  refusal_of(head);
  head.release(kRank2);
  CHECK(arrival_at(head).claim == kRank2);
  CHECK(joining.get().socket.valid());
}

TEST_CASE("neither the head's own ranks nor those that are not there can be claimed") {
  Listener head(head_of_two());
  for (const Claim& claim : {Claim{Role::rank, 0}, Claim{Role::rank, 1}, Claim{Role::rank, 4},
                             Claim{Role::rank, 2'000'000'000}}) {
    const Answer answer = answer_to(head, claim);
    CHECK(answer.verdict == Verdict::out_of_range);
    CHECK_THAT(answer.reason, Contains("of the 4 ranks of this run, 2 to 3 can join"));
    CHECK_THAT(refusal_of(head), Contains(to_text(claim)));
  }
  for (const Claim& claim : {Claim{Role::node, 0}, Claim{Role::node, 2}}) {
    const Answer answer = answer_to(head, claim);
    CHECK(answer.verdict == Verdict::out_of_range);
    CHECK_THAT(answer.reason, Contains("of the 2 nodes of this run, only 1 can join"));
    refusal_of(head);
  }
  auto joining = join_aside(request_to(head, {Role::rank, 9}));
  serve_until(head, [&] { return is_ready(joining); });
  const Error error = thrown_by([&] { joining.get(); });
  CHECK(error.kind() == ErrorKind::config);
  CHECK_THAT(error.what(), Contains("rank 9") && Contains("--nnodes"));
}

TEST_CASE("what is said behind the handshake is left for who serves the connection") {
  Listener head(head_of_two());
  Stranger joiner(head.endpoint());
  JoinHandshake handshake(request_to(head, kRank2), make_nonce());
  joiner.say(handshake.take_output());
  serve_until(head, [&] {
    handshake.take(joiner.hear(handshake.wanted()));
    return handshake.has_proved();
  });
  joiner.say(handshake.take_output() + "the store protocol");
  const Listener::Arrival arrival = arrival_at(head);
  std::array<char, 100> buffer;
  ssize_t count = -1;
  wait_until(
      [&] { return (count = ::recv(arrival.socket.get(), buffer.data(), buffer.size(), 0)) > 0; });
  CHECK(std::string(buffer.data(), static_cast<std::size_t>(count)) == "the store protocol");
}

TEST_CASE("two runs on one host keep apart") {
  Listener one(head_of_two());
  Listener::Options options = head_of_two();
  options.token = token_of(9);
  Listener other(options);
  CHECK(one.endpoint().port != other.endpoint().port);
  auto first = join_aside(request_to(one, kRank2));
  CHECK(arrival_at(one).claim == kRank2);
  Join request = request_to(other, kRank2);
  Stranger lost(other.endpoint());
  JoinHandshake handshake(request, make_nonce());
  introduce(other, lost, handshake);
  CHECK(lost.is_cut());
  request.token = token_of(9);
  auto second = join_aside(request);
  CHECK(arrival_at(other).claim == kRank2);
  CHECK(first.get().socket.valid());
  CHECK(second.get().socket.valid());
}

TEST_CASE("it is listened on one address and no other") {
  const Listener head(head_of_two("localhost"));
  const auto addresses = listened_on(head.endpoint().port);
  REQUIRE(addresses.size() == 1);
  const std::string address = addresses[0].substr(0, addresses[0].find(':'));
  CHECK(address == (address.size() == 8 ? "0100007F" : "00000000000000000000000001000000"));
}

}  // namespace trainctl::launch
