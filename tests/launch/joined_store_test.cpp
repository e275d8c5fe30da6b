#include "launch/rendezvous/rendezvous.hpp"
#include "launch/rendezvous/store.hpp"
#include "launch/rendezvous_peers.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <thread>

namespace trainctl::launch {
namespace {

constexpr std::chrono::seconds kPatience{30};

/// A coordinator in a separate thread that serves the store to each rank that joins.
class StoreHost {
 public:
  explicit StoreHost(Listener::Options options) : listener_(std::move(options)) {
    endpoint_ = listener_.endpoint();
    thread_ = std::thread([this] { serve(); });
  }
  ~StoreHost() { stop(); }

  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] JoinOptions request(int rank) const {
    return {.endpoint = endpoint_,
            .token = token_of(7),
            .run_id = "run",
            .claim = {Role::rank, rank},
            .timeout_s = 60};
  }
  /// Returns the clients that were cut off; call it after stop().
  std::vector<StoreServer::Disconnect> cuts() { return store_.take_disconnects(); }
  [[nodiscard]] std::size_t stored_bytes() const { return store_.stored_bytes(); }

 private:
  void serve() {
    while (!over_) {
      std::vector<pollfd> polls;
      listener_.append_to(polls);
      store_.append_to(polls);
      ::poll(polls.data(), polls.size(), 5);
      listener_.serve(steady_clock().now());
      for (Listener::Arrival& arrival : listener_.take_arrivals())
        store_.add_client(arrival.claim.number, std::move(arrival.socket));
      store_.serve();
    }
  }

  Listener listener_;
  Endpoint endpoint_;
  StoreServer store_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

Listener::Options four_rank_options() {
  Listener::Options options = two_node_options();
  options.world_size = 8;
  options.nodes = 4;
  return options;
}

}  // namespace

TEST_CASE("StoreServer: ranks of other nodes exchange keys over TCP") {
  StoreHost coordinator(four_rank_options());
  std::atomic<int> met = 0;
  std::vector<std::thread> ranks;
  for (int rank = 2; rank < 8; ++rank) {
    ranks.emplace_back([&, request = coordinator.request(rank)] {
      StoreClient store(join(request).socket.release());
      store.set(std::to_string(request.claim.number), std::string(kMaxValueBytes, 'v'));
      std::vector<std::string> keys;
      for (int peer = 2; peer < 8; ++peer) keys.push_back(std::to_string(peer));
      store.wait(keys, kPatience);
      met += store.try_get(keys.back()).value().size() == kMaxValueBytes ? 1 : 0;
      store.add("over", 1);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(met == 6);
  coordinator.stop();
  CHECK(coordinator.cuts().empty());
}

TEST_CASE(
    "StoreServer: a rank that announces a key of 8 GiB is disconnected, and the others are "
    "served") {
  StoreHost coordinator(four_rank_options());
  StoreClient other(join(coordinator.request(2)).socket.release());
  const JoinedConnection hostile = join(coordinator.request(3));
  // The key of a frame of 64 KiB claims a length of 4 GiB minus one byte, the maximum.
  std::string frame = encode_request(
      {.operation = Operation::set, .keys = {std::string(1 << 16, 'k')}, .value = "v"});
  for (std::size_t i = 9; i < 13; ++i) frame[i] = '\xff';
  REQUIRE(::send(hostile.socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL) > 0);
  std::array<char, 16> buffer;
  CHECK(::recv(hostile.socket.get(), buffer.data(), buffer.size(), 0) <= 0);
  other.set("key", "value");
  CHECK(other.try_get("key") == "value");
  coordinator.stop();
  const auto cuts = coordinator.cuts();
  REQUIRE(cuts.size() == 1);
  CHECK(cuts[0].rank == 3);
  CHECK_THAT(cuts[0].reason, Contains("bytes, got 4294967295"));
  CHECK(coordinator.stored_bytes() < 100);
}

TEST_CASE("StoreClient: a joined rank whose coordinator exited fails with rank_failed") {
  auto coordinator = std::make_unique<StoreHost>(four_rank_options());
  StoreClient store(join(coordinator->request(7)).socket.release());
  store.set("key", "value");
  coordinator.reset();
  CHECK(thrown_by([&] { store.try_get("key"); }).kind() == ErrorKind::rank_failed);
}

}  // namespace trainctl::launch
