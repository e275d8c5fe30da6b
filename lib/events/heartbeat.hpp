#pragma once

#include "base/files.hpp"
#include "events/records.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::events {

/// What a rank exchanges with the others, or exchanged last.
struct Collective {
  std::string name;        // "all-reduce of the gradients"; empty: there was none yet
  bool under_way = false;  // it waits for the others
};

/// One page of shared memory a rank, written by the training thread (`loaded`, `told`: by any) and
/// read by the supervisor, which writes `heard`: a rank that died by SIGKILL or hangs still tells
/// its step and phase. Trivially copyable layout, zero-initialized by the kernel; others read its
/// first fields where they are.
struct Heartbeat {
  std::atomic<std::int64_t> global_step;
  std::atomic<std::int32_t> phase;         // Phase
  std::atomic<std::int64_t> monotonic_ns;  // CLOCK_MONOTONIC of the last stamp
  std::atomic<std::int64_t> loaded;        // grows while data is read and made; 0: nobody counts it

  void stamp(Phase now_in, std::int64_t step);

  std::atomic<std::int64_t> told;   // events of the rank that are in the pipe, by the rank
  std::atomic<std::int64_t> heard;  // and those that its listeners have, by the supervisor

  /// Whether what was told by then would survive this process and the supervisor. True where nobody
  /// counts.
  [[nodiscard]] bool has_heard(std::int64_t of_told) const {
    const std::int64_t now = heard.load(std::memory_order_acquire);
    return now == 0 || now >= of_told;
  }

  static constexpr std::size_t kNameWords = 8;  // of eight characters: the rest of a name is cut
  std::atomic<std::int32_t> in_collective;      // 1 while it is under way
  std::array<std::atomic<std::uint64_t>, kNameWords> collective_name;  // the last: zeros behind it

  /// From here on it may wait for other ranks: a few stores, on whatever thread exchanges.
  void begin_collective(std::string_view name);
  void end_collective() { in_collective.store(0, std::memory_order_release); }
  /// A name that is written meanwhile may come out mixed: one that is waited for is not.
  [[nodiscard]] Collective collective() const;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// The collective `name` is under way while it lives. `page` may be null.
class CollectiveStamp {
 public:
  CollectiveStamp(Heartbeat* page, std::string_view name) : page_(page) {
    if (page_ != nullptr) page_->begin_collective(name);
  }
  ~CollectiveStamp() {
    if (page_ != nullptr) page_->end_collective();
  }
  CollectiveStamp(const CollectiveStamp&) = delete;
  CollectiveStamp& operator=(const CollectiveStamp&) = delete;

 private:
  Heartbeat* page_;
};

/// A Heartbeat in shared memory: created by the supervisor, attached to by the worker it is
/// inherited by.
class HeartbeatPage {
 public:
  /// A new zeroed page whose size nobody can change. Throws Error(resource).
  static HeartbeatPage create();
  /// The page behind an inherited descriptor, which stays open. Throws Error(config) where it is
  /// not one.
  static HeartbeatPage attach(int fd);
  ~HeartbeatPage();
  HeartbeatPage(HeartbeatPage&& other) noexcept;
  HeartbeatPage& operator=(HeartbeatPage&&) = delete;

  [[nodiscard]] Heartbeat& get() const { return *page_; }
  /// The memfd of a created page; -1 for an attached one.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HeartbeatPage(Fd fd, Heartbeat* page) : fd_(std::move(fd)), page_(page) {}

  Fd fd_;
  Heartbeat* page_;
};

}  // namespace trainctl::events
