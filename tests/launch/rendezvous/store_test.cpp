#include "launch/rendezvous/store.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace trainctl::launch {
namespace {

struct Ends {
  Fd server;
  Fd client;
};

Ends socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("socketpair");
  return {Fd(ends[0]), Fd(ends[1])};
}

// A server in a separate thread, driven like by the supervisor's loop.
class StoreThread {
 public:
  explicit StoreThread(int clients) {
    for (int rank = 0; rank < clients; ++rank) {
      Ends ends = socket_pair();
      server_.add_client(rank, std::move(ends.server));
      sockets_.push_back(std::move(ends.client));
    }
    thread_ = std::thread([this] {
      while (!over_) {
        std::vector<pollfd> polls;
        server_.append_to(polls);
        ::poll(polls.data(), polls.size(), 5);
        server_.serve();
      }
    });
  }
  ~StoreThread() { stop(); }

  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int socket(int rank) { return sockets_[static_cast<std::size_t>(rank)].release(); }

 private:
  StoreServer server_;
  std::vector<Fd> sockets_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

constexpr std::chrono::seconds kLong{30};

// Drives a server with the bytes of one client and returns the reason if the client was cut off.
std::optional<std::string> disconnect_reason(StoreServer& server, const std::string& bytes) {
  Ends ends = socket_pair();
  server.add_client(5, std::move(ends.server));
  std::size_t sent = 0;
  for (int i = 0; i < 400 && sent < bytes.size(); ++i) {
    const ssize_t count = ::send(ends.client.get(), bytes.data() + sent, bytes.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) sent += static_cast<std::size_t>(count);
    server.serve();
  }
  server.serve();
  ends.client.reset();
  server.serve();
  const auto cuts = server.take_disconnects();
  if (cuts.empty()) return std::nullopt;
  CHECK(cuts[0].rank == 5);
  return cuts[0].reason;
}

}  // namespace

TEST_CASE("StoreClient: clients see each other's keys") {
  StoreThread service(2);
  StoreClient a(service.socket(0));
  StoreClient b(service.socket(1));
  const std::string bytes("\0\n\xff value", 9);
  a.set("key", bytes);
  CHECK(b.try_get("key") == bytes);
  CHECK_FALSE(b.try_get("other"));
  CHECK(a.add("count", 5) == 5);
  CHECK(b.add("count", -7) == -2);
  CHECK(b.try_get("count") == "-2");
  CHECK(a.size() == 2);
  CHECK(b.erase("key"));
  CHECK_FALSE(b.erase("key"));
  CHECK(a.size() == 1);
  a.set("empty", "");
  CHECK(b.try_get("empty") == "");
}

TEST_CASE("StoreClient: ranks wait for each other's keys") {
  constexpr int kWorld = 4;
  StoreThread service(kWorld);
  std::atomic<int> met = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kWorld; ++rank) {
    ranks.emplace_back([&, socket = service.socket(rank), rank] {
      StoreClient store(socket);
      std::vector<std::string> keys;
      for (int round = 0; round < 20; ++round) {
        const std::string name = std::to_string(round) + "/";
        store.set(name + std::to_string(rank), std::string(1000, 'x'));
        keys.clear();
        for (int peer = 0; peer < kWorld; ++peer) keys.push_back(name + std::to_string(peer));
        store.wait(keys, kLong);
        if (store.try_get(keys.back()).value().size() == 1000) ++met;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(met == kWorld * 20);
}

TEST_CASE(
    "StoreClient: a wait that times out is a hang error with the key, and the client stays "
    "usable") {
  StoreThread service(1);
  StoreClient store(service.socket(0));
  try {
    store.wait({"never"}, std::chrono::milliseconds(30));
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::hang);
    CHECK_THAT(error.what(), Contains("'never'"));
  }
  store.set("never", "now");
  store.wait({"never"}, kLong);
  CHECK(store.try_get("never") == "now");
}

TEST_CASE("StoreClient: threads of one rank share a client") {
  StoreThread service(2);
  StoreClient shared(service.socket(0));
  StoreClient other(service.socket(1));
  std::thread waiting([&] { shared.wait({"go"}, kLong); });
  for (int i = 0; i < 100; ++i) shared.add("n", 1);
  other.set("go", "");
  waiting.join();
  CHECK(other.try_get("n") == "100");
}

TEST_CASE("StoreClient: fails with rank_failed without a supervisor") {
  Ends ends = socket_pair();
  StoreClient store(ends.client.release());
  ends.server.reset();
  try {
    store.set("key", "value");
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::rank_failed);
  }
}

TEST_CASE("store: limits are checked on both sides") {
  StoreThread service(1);
  StoreClient store(service.socket(0));
  CHECK_THROWS_AS(store.set(std::string(kMaxKeyBytes + 1, 'k'), ""), Error);
  CHECK_THROWS_AS(store.set("key", std::string(kMaxValueBytes + 1, 'v')), Error);
  CHECK_THROWS_AS(store.wait(std::vector<std::string>(kMaxWaitKeys + 1, "k"), kLong), Error);
  store.set(std::string(kMaxKeyBytes, 'k'), std::string(kMaxValueBytes, 'v'));
  CHECK(store.try_get(std::string(kMaxKeyBytes, 'k')).value().size() == kMaxValueBytes);
  store.set("text", "abc");
  CHECK_THROWS_WITH(store.add("text", 1), Contains("not a number"));
  store.set("big", "9223372036854775807");
  CHECK_THROWS_AS(store.add("big", 1), Error);
}

TEST_CASE("StoreServer: a full store rejects new values and still serves") {
  StoreServer server;
  const std::string value(kMaxValueBytes, 'v');
  for (int i = 0; i < 100; ++i) {
    const std::string frame =
        encode_request({.operation = Operation::set, .keys = {std::to_string(i)}, .value = value});
    CHECK_FALSE(disconnect_reason(server, frame));
    CHECK(server.stored_bytes() <= kMaxStoreBytes);
  }
  CHECK(server.stored_bytes() > kMaxStoreBytes - 2 * kMaxValueBytes);
  CHECK_FALSE(
      disconnect_reason(server, encode_request({.operation = Operation::erase, .keys = {"0"}})));
  CHECK(server.stored_bytes() < kMaxStoreBytes - kMaxValueBytes);
}

TEST_CASE("StoreServer: a malformed request disconnects the client with the reason") {
  StoreServer server;
  CHECK_THAT(disconnect_reason(server, std::string("\xff\xff\xff\xff", 4)).value(),
             Contains("bytes, got 4294967295"));
  CHECK_THAT(disconnect_reason(server, std::string("\0\0\0\0", 4)).value(), Contains("too short"));
  CHECK_THAT(disconnect_reason(server, std::string("\5\0\0\0\0\0\0\0\x63", 9)).value(),
             Contains("operation 99"));
  std::string keys = encode_request({.operation = Operation::wait});
  keys[9] = keys[10] = keys[11] = '\x7f';
  CHECK_THAT(disconnect_reason(server, keys).value(), Contains("a request must have at most"));
  std::string longer = encode_request({.operation = Operation::try_get, .keys = {"key"}});
  longer[0] = static_cast<char>(longer[0] + 1);
  CHECK_THAT(disconnect_reason(server, longer + "x").value(), Contains("1 byte too long"));
  std::string text = encode_request({.operation = Operation::try_get, .keys = {"key"}});
  text[11] = '\x7f';
  CHECK_THAT(disconnect_reason(server, text).value(), Contains("a text must have"));
  CHECK(server.clients() == 0);
}

TEST_CASE("StoreServer: memory for a client that never reads is bounded") {
  StoreServer server;
  CHECK_FALSE(disconnect_reason(
      server, encode_request(
                  {.operation = Operation::set, .keys = {"k"}, .value = std::string(1000, 'v')})));
  std::string many;
  for (int i = 0; i < 100'000; ++i)
    many += encode_request({.operation = Operation::try_get, .keys = {"k"}});
  CHECK_FALSE(disconnect_reason(server, many));  // no more is read while replies are pending
}

TEST_CASE("StoreServer: pipelined requests are answered in order") {
  StoreServer server;
  Ends ends = socket_pair();
  server.add_client(0, std::move(ends.server));
  std::string many;
  for (std::uint32_t id = 0; id < 50; ++id)
    many += encode_request({.id = id, .operation = Operation::add, .keys = {"n"}, .delta = 1});
  REQUIRE(::send(ends.client.get(), many.data(), many.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(many.size()));
  std::string input;
  std::uint32_t expected = 0;
  for (int turn = 0; turn < 200 && expected < 50; ++turn) {
    server.serve();
    std::array<char, 4096> buffer;
    const ssize_t count = ::recv(ends.client.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) input.append(buffer.data(), static_cast<std::size_t>(count));
    while (const auto length = body_bytes(input)) {
      if (input.size() < kFrameLengthBytes + *length) break;
      const Reply reply = decode_reply(std::string_view(input).substr(kFrameLengthBytes, *length));
      CHECK(reply.id == expected);
      CHECK(reply.value == std::to_string(++expected));
      input.erase(0, kFrameLengthBytes + *length);
    }
  }
  CHECK(expected == 50);
}

TEST_CASE("StoreServer: hostile bytes neither crash the server nor fill its memory") {
  std::mt19937_64 rng(7);
  StoreServer server;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    if (i % 2 == 0) {  // noise
      for (std::size_t n = rng() % 200; n > 0; --n) bytes += static_cast<char>(rng());
    } else {  // valid requests with a few flipped bits
      for (std::size_t n = 1 + rng() % 4; n > 0; --n) {
        const auto operation = static_cast<Operation>(1 + rng() % 6);
        Request request{.operation = operation,
                        .value = std::string(rng() % 50, 'v'),
                        .delta = static_cast<std::int64_t>(rng())};
        if (operation != Operation::size) request.keys = {std::to_string(rng() % 9)};
        bytes += encode_request(request);
      }
      for (std::size_t n = rng() % 4; n > 0; --n)
        bytes[rng() % bytes.size()] ^= static_cast<char>(1 << (rng() % 8));
    }
    disconnect_reason(server, bytes);
    CHECK(server.clients() == 0);
    CHECK(server.stored_bytes() < 1 << 20);
  }
}

}  // namespace trainctl::launch
