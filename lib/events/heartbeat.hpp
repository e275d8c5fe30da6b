#pragma once

#include "base/files.hpp"
#include "events/records.hpp"

#include <atomic>
#include <cstdint>
#include <utility>

namespace trainctl::events {

/// One page of shared memory a rank, written by the training thread (`loaded`: by any) and read by
/// the supervisor: a rank that died by SIGKILL or hangs still tells its step and phase. Trivially
/// copyable layout, zero-initialised by the kernel; others read its first fields where they are.
struct Heartbeat {
  std::atomic<std::int64_t> global_step;
  std::atomic<std::int32_t> phase;         // Phase
  std::atomic<std::int64_t> monotonic_ns;  // CLOCK_MONOTONIC of the last stamp
  std::atomic<std::int64_t> loaded;        // grows while data is read and made; 0: nobody counts it

  void stamp(Phase now_in, std::int64_t step);
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

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
