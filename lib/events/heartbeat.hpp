#pragma once

#include "base/files.hpp"
#include "events/records.hpp"

#include <atomic>

namespace trainctl::events {

/// The collective that a rank is in, or was in last.
struct Collective {
  std::string name;          // "all-reduce of the gradients"; empty: none so far
  bool in_progress = false;  // waits for other ranks
};

/// One page of shared memory per rank. The training thread writes it (any thread writes `loaded`
/// and `num_written`), and the supervisor reads it and writes `num_recorded`, so that step and
/// phase of a rank are known even after SIGKILL or during a hang. Trivially copyable layout,
/// zero-initialized by the kernel; other programs read the first fields at fixed offsets.
struct Heartbeat {
  std::atomic<std::int64_t> global_step;
  std::atomic<std::int32_t> phase;         // Phase
  std::atomic<std::int64_t> monotonic_ns;  // CLOCK_MONOTONIC of the last stamp()
  std::atomic<std::int64_t> loaded;        // grows while data is loaded; 0: not counted

  /// Stores phase and step, and the current time. Called by the training thread.
  void stamp(Phase now_in, std::int64_t step);

  std::atomic<std::int64_t> num_written;  // number of events that the rank has written to the pipe
  std::atomic<std::int64_t>
      num_recorded;  // events that its listeners have, written by the supervisor

  /// Returns whether the first `count` events survive the end of this process and of the
  /// supervisor. True if the supervisor does not count.
  [[nodiscard]] bool has_recorded(std::int64_t count) const {
    const std::int64_t now = num_recorded.load(std::memory_order_acquire);
    return now == 0 || now >= count;
  }

  static constexpr std::size_t kNameWords = 8;  // of eight characters; longer names are cut
  std::atomic<std::int32_t> in_collective;      // 1 while a collective runs
  std::array<std::atomic<std::uint64_t>, kNameWords> collective_name;  // zero-padded

  /// Marks the start of a collective that may wait for other ranks. It only makes a few stores and
  /// can be called from any thread.
  void begin_collective(std::string_view name);
  void end_collective() { in_collective.store(0, std::memory_order_release); }
  /// Returns the collective. Its name may be mixed up while it is written, but not during a wait.
  [[nodiscard]] Collective collective() const;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// Marks the collective `name` as running during its lifetime. `page` may be null.
class CollectiveScope {
 public:
  CollectiveScope(Heartbeat* page, std::string_view name) : page_(page) {
    if (page_ != nullptr) page_->begin_collective(name);
  }
  ~CollectiveScope() {
    if (page_ != nullptr) page_->end_collective();
  }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  Heartbeat* page_;
};

/// A Heartbeat in shared memory, which the supervisor creates and the worker inherits.
class HeartbeatPage {
 public:
  /// Creates a zeroed page with a fixed size. Throws Error(resource).
  static HeartbeatPage create();
  /// Maps the page of an inherited descriptor, which stays open. Throws Error(config) if it fails.
  static HeartbeatPage attach(int fd);
  ~HeartbeatPage();
  HeartbeatPage(HeartbeatPage&& other) noexcept;
  HeartbeatPage& operator=(HeartbeatPage&&) = delete;

  [[nodiscard]] Heartbeat& get() const { return *page_; }
  /// Returns the memfd of a created page; -1 for an attached one.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HeartbeatPage(Fd fd, Heartbeat* page) : fd_(std::move(fd)), page_(page) {}

  Fd fd_;
  Heartbeat* page_;
};

}  // namespace trainctl::events
