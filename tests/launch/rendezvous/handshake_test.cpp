#include "launch/rendezvous/handshake.hpp"

#include "launch/rendezvous/wire.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <random>

namespace trainctl::launch {
namespace {

const Token kToken = token_of(7);
const Nonce kCoordinatorNonce = token_of(1);
const Nonce kJoinNonce = token_of(2);

JoinOptions request(Claim claim = {Role::rank, 3}) {
  return {.endpoint = {"127.0.0.1", 1}, .token = kToken, .run_id = "run", .claim = claim};
}

CoordinatorHandshake make_coordinator(const Token& token = kToken,
                                      const std::string& run_id = "run") {
  return {token, run_id, kCoordinatorNonce};
}

/// Passes all bytes to a machine, at most `piece` and at most as many as it wants at a time.
template <class Machine>
std::size_t feed(Machine& machine, std::string_view bytes, std::size_t piece = 1000) {
  std::size_t taken = 0;
  while (taken < bytes.size() && machine.bytes_needed() > 0) {
    const std::size_t count = std::min({machine.bytes_needed(), piece, bytes.size() - taken});
    machine.take(bytes.substr(taken, count));
    taken += count;
  }
  return taken;
}

std::string rejection_of(CoordinatorHandshake machine, const std::string& bytes) {
  const Error error = thrown_by([&] { feed(machine, bytes); });
  CHECK_FALSE(machine.proved_claim());
  return error.message();
}

/// Returns all that a joiner sends to a coordinator with kCoordinatorNonce.
std::string joiner_messages(const JoinOptions& join = request()) {
  JoinHandshake joiner(join, kJoinNonce);
  std::string hello = joiner.take_output();
  feed(joiner, wire::framed(std::string(wire::as_text(kCoordinatorNonce))));
  return hello + joiner.take_output();
}

}  // namespace

TEST_CASE("handshake: both sides prove the token in pieces of any size") {
  for (const std::size_t piece : {1, 3, 7, 1000}) {
    JoinHandshake joiner(request({Role::node, 1}), kJoinNonce);
    CoordinatorHandshake coordinator = make_coordinator();
    feed(coordinator, joiner.take_output(), piece);
    CHECK_FALSE(joiner.has_sent_proof());
    feed(joiner, coordinator.take_output(), piece);
    CHECK(joiner.has_sent_proof());
    CHECK_FALSE(coordinator.proved_claim());
    feed(coordinator, joiner.take_output(), piece);
    CHECK(coordinator.proved_claim() == Claim{Role::node, 1});
    CHECK(coordinator.bytes_needed() == 0);
    coordinator.answer({JoinStatus::already_joined, "by another"});
    feed(joiner, coordinator.take_output(), piece);
    REQUIRE(joiner.answer());
    CHECK(joiner.answer()->status == JoinStatus::already_joined);
    CHECK(joiner.answer()->reason == "by another");
    CHECK(joiner.bytes_needed() == 0);
  }
}

TEST_CASE("handshake: bytes after the handshake are not consumed") {
  CoordinatorHandshake coordinator = make_coordinator();
  const std::string messages = joiner_messages();
  CHECK(feed(coordinator, messages + "the store protocol") == messages.size());
  CHECK(coordinator.proved_claim() == Claim{Role::rank, 3});
}

TEST_CASE("handshake: a different token, run id or version is reported") {
  CHECK(rejection_of(make_coordinator(token_of(8)), joiner_messages()) ==
        "its token differs from the token of node 0");
  CHECK(rejection_of(make_coordinator(kToken, "other"), joiner_messages()) ==
        "its run id is 'run', but the run of node 0 has the id 'other'");
  std::string newer = joiner_messages();
  newer[4 + 8] = static_cast<char>(kHandshakeVersion + 1);
  CHECK_THAT(rejection_of(make_coordinator(), newer), Contains("version 2"));
}

TEST_CASE("CoordinatorHandshake: each flipped bit of a joiner's message is rejected") {
  const std::string messages = joiner_messages();
  for (std::size_t bit = 0; bit < 8 * messages.size(); ++bit) {
    std::string flipped = messages;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    CoordinatorHandshake coordinator = make_coordinator();
    try {
      feed(coordinator, flipped);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::unexpected);
    }
    INFO("bit " << bit);
    CHECK_FALSE(coordinator.proved_claim());
  }
}

TEST_CASE("JoinHandshake: each flipped bit of a coordinator's message is rejected") {
  CoordinatorHandshake coordinator = make_coordinator();
  feed(coordinator, joiner_messages());
  coordinator.answer({JoinStatus::out_of_range, "why"});
  const std::string hello = coordinator.take_output();
  for (std::size_t bit = 0; bit < 8 * hello.size(); ++bit) {
    std::string flipped = hello;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    JoinHandshake joiner(request(), kJoinNonce);
    try {
      feed(joiner, flipped);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::unexpected);
    }
    INFO("bit " << bit);
    CHECK_FALSE(joiner.answer());
  }
}

TEST_CASE("handshake: proofs of coordinator and joiner are not interchangeable") {
  const HandshakeTranscript transcript{{Role::rank, 3}, "run", kJoinNonce, kCoordinatorNonce};
  CHECK(joiner_proof(kToken, transcript) != coordinator_proof(kToken, transcript, {}));

  CoordinatorHandshake coordinator = make_coordinator();
  JoinHandshake joiner(request(), kJoinNonce);
  feed(coordinator, joiner.take_output());
  const Sha256 proof_of_coordinator = coordinator_proof(kToken, transcript, {});
  CHECK_THROWS_WITH(feed(coordinator, wire::framed(std::string(as_text(proof_of_coordinator)))),
                    Contains("token differs"));

  // A mirror returns each frame unchanged.
  JoinHandshake before_mirror(request(), kJoinNonce);
  before_mirror.take_output();
  feed(before_mirror, wire::framed(std::string(wire::as_text(kJoinNonce))));
  const std::string proof = before_mirror.take_output().substr(4);
  std::string answer("\x01\0\0\0\0", 5);
  CHECK_THROWS_WITH(feed(before_mirror, wire::framed(answer + proof)), Contains("the token"));
  CHECK_FALSE(before_mirror.answer());
}

TEST_CASE("handshake: a proof is valid for one claim, run and pair of nonces") {
  const HandshakeTranscript transcript{{Role::rank, 3}, "run", kJoinNonce, kCoordinatorNonce};
  const Sha256 proof = joiner_proof(kToken, transcript);
  for (const HandshakeTranscript& other :
       {HandshakeTranscript{{Role::rank, 2}, "run", kJoinNonce, kCoordinatorNonce},
        HandshakeTranscript{{Role::node, 3}, "run", kJoinNonce, kCoordinatorNonce},
        HandshakeTranscript{{Role::rank, 3}, "run2", kJoinNonce, kCoordinatorNonce},
        HandshakeTranscript{{Role::rank, 3}, "run", kCoordinatorNonce, kCoordinatorNonce},
        HandshakeTranscript{{Role::rank, 3}, "run", kJoinNonce, kJoinNonce},
        HandshakeTranscript{{Role::rank, 3}, "run", kCoordinatorNonce, kJoinNonce}})
    CHECK(joiner_proof(kToken, other) != proof);
  CHECK(joiner_proof(token_of(8), transcript) != proof);
  CHECK(make_nonce() != make_nonce());
}

TEST_CASE("handshake: lengths are checked before memory is allocated") {
  for (const std::string_view length :
       {std::string_view("\xff\xff\xff\xff", 4), std::string_view("\0\0\0\0", 4),
        std::string_view("\x01\x02\0\0", 4), std::string_view("GET ", 4)})
    CHECK_THAT(rejection_of(make_coordinator(), std::string(length)),
               Contains("not a message of trainctl"));
  CHECK_THAT(rejection_of(make_coordinator(), wire::framed("trainctl")), Contains("too short"));
  CHECK_THAT(rejection_of(make_coordinator(), wire::framed("trainctm")),
             Contains("not a message of trainctl"));

  const JoinOptions join = request();
  std::string hello = JoinHandshake(join, kJoinNonce).take_output();
  const std::size_t at = hello.size() - join.run_id.size() - 4;
  hello[at + 3] = '\x7f';  // in the length of the run id
  CHECK_THAT(rejection_of(make_coordinator(), hello), Contains("a text must have"));
  std::string role = JoinHandshake(join, kJoinNonce).take_output();
  role[4 + 9] = 3;
  CHECK_THAT(rejection_of(make_coordinator(), role), Contains("role 3"));
  std::string number = JoinHandshake(join, kJoinNonce).take_output();
  number[4 + 13] = '\xff';
  CHECK_THAT(rejection_of(make_coordinator(), number), Contains("too large"));
}

TEST_CASE("handshake: random bytes are rejected by both sides") {
  std::mt19937_64 rng(11);
  for (int i = 0; i < 2000; ++i) {
    std::string body;
    for (std::size_t n = 1 + rng() % 120; n > 0; --n) body += static_cast<char>(rng());
    const std::string noise = wire::framed(body) + wire::framed(body);
    CoordinatorHandshake coordinator = make_coordinator();
    JoinHandshake joiner(request(), kJoinNonce);
    CHECK_THROWS_AS(feed(coordinator, noise), Error);
    try {
      feed(joiner, noise);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::unexpected);
    }
    CHECK_FALSE(coordinator.proved_claim());
    CHECK_FALSE(joiner.answer());
  }
}

TEST_CASE("equal_in_constant_time: compares texts completely") {
  CHECK(equal_in_constant_time("", ""));
  CHECK(equal_in_constant_time("abc", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "abd"));
  CHECK_FALSE(equal_in_constant_time("abc", "bbc"));
  CHECK_FALSE(equal_in_constant_time("abc", "ab"));
}

}  // namespace trainctl::launch
