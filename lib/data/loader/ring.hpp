#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

namespace trainctl::data {

/// Synchronizes the batch slots, without their bytes. Batches are numbered 0, 1, 2 ... from open();
/// batch s uses slot s mod K. Workers take tickets (batch, tile) in the order of the batches; a
/// ticket for batch s waits until its slot is free. The last finished tile publishes the batch.
/// There is one consumer.
class Ring {
 public:
  struct Ticket {
    std::uint64_t batch = 0;
    int tile = 0;
  };

  /// `slots` is K, the number of slots; `tiles` is the number of tiles per batch.
  Ring(int slots, int tiles);

  [[nodiscard]] int slots() const { return static_cast<int>(slots_.size()); }
  [[nodiscard]] int slot_of(std::uint64_t batch) const {
    return static_cast<int>(batch % slots_.size());
  }

  /// Worker: returns the next tile once its slot is free, or nothing after close().
  std::optional<Ticket> take();
  /// Like take(), but returns nothing if the slot is not free. For a consumer that would otherwise
  /// wait.
  std::optional<Ticket> try_take();
  /// Worker: marks the tile as finished, or as failed with `error`.
  void finish(const Ticket& ticket, std::exception_ptr error);

  /// Consumer: returns whether await() would return without blocking.
  [[nodiscard]] bool published(std::uint64_t batch) const;
  /// Consumer: waits until the batch is published. Returns the error of its first failed tile, if
  /// any.
  std::exception_ptr await(std::uint64_t batch);
  /// Consumer: allows its slot to be overwritten.
  void release(std::uint64_t batch);

  /// Wakes all workers; take() returns nothing from now on.
  void close();
  /// After close() the consumer discards unfinished batches, so workers may stop early.
  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// Restarts at batch 0. No worker may be between take() and finish().
  void open();

 private:
  [[nodiscard]] Ticket ticket(std::uint64_t number) const {
    const auto tiles = static_cast<std::uint64_t>(tiles_);
    return {number / tiles, static_cast<int>(number % tiles)};
  }

  // Futexes have 32 bits. Both fields hold the lower bits of a batch number, so stale values never
  // match.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> free_for{0};   // the batch that may be written
    std::atomic<std::uint32_t> published{0};  // the batch that may be read, plus 1
    std::atomic<int> tiles_left{0};
    std::mutex error_mutex;
    std::exception_ptr error;
    int error_tile = 0;
  };

  int tiles_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint64_t> next_ticket_{0};
  alignas(64) std::atomic<bool> closed_{true};
};

}  // namespace trainctl::data
