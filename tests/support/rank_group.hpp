#pragma once

#include "dist/communicator.hpp"
#include "events/heartbeat.hpp"
#include "launch/rendezvous/store.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

/// Throws unless `holds`. Ranks use this because Catch2's assertions work only in the test's
/// thread.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// Runs ranks as threads of the test, with the rendezvous store in another thread. The group
/// replaces the supervisor, which provides the same to processes.
class RankGroup {
 public:
  explicit RankGroup(int world_size)
      : world_size_(world_size), pages_(static_cast<std::size_t>(world_size)) {
    std::signal(SIGPIPE, SIG_IGN);  // like a worker: Gloo writes to exited ranks
    for (int rank = 0; rank < world_size; ++rank) {
      std::array<int, 2> ends{};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw std::runtime_error("socketpair");
      server_.add_client(rank, trainctl::Fd(ends[0]));
      clients_.push_back(std::make_shared<trainctl::launch::StoreClient>(ends[1]));
    }
    service_ = std::thread([this] {
      while (!over_) {
        std::vector<pollfd> polls;
        server_.append_to(polls);
        ::poll(polls.data(), polls.size(), 5);
        server_.serve();
      }
    });
  }
  ~RankGroup() {
    over_ = true;
    service_.join();
  }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Returns the heartbeat page of a rank, which a supervisor would poll.
  [[nodiscard]] trainctl::events::Heartbeat& page(int rank) {
    return pages_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] trainctl::dist::GroupOptions options(int rank, std::chrono::milliseconds timeout) {
    trainctl::dist::GroupOptions options;
    options.rank_info = {rank, world_size_};
    options.store = clients_[static_cast<std::size_t>(rank)];
    options.timeout = timeout;
    options.heartbeat = &page(rank);
    return options;
  }

  using Body =
      std::function<void(int rank, std::unique_ptr<trainctl::dist::Communicator> communicator)>;
  /// Runs `body` once per rank over Gloo; returns the exception of each rank, or null.
  std::vector<std::exception_ptr> run(
      const Body& body, std::chrono::milliseconds timeout = std::chrono::seconds(120)) {
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(world_size_));
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < world_size_; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          body(rank, trainctl::dist::make_gloo(options(rank, timeout)));
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return thrown;
  }

  /// Runs `body` once per rank, and throws the first exception.
  void run_all(const Body& body) {
    for (const std::exception_ptr& thrown : run(body)) {
      if (thrown) std::rethrow_exception(thrown);
    }
  }

 private:
  int world_size_;
  std::deque<trainctl::events::Heartbeat> pages_;
  trainctl::launch::StoreServer server_;
  std::vector<std::shared_ptr<trainctl::launch::StoreClient>> clients_;
  std::atomic<bool> over_ = false;
  std::thread service_;
};
