#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

namespace trainctl::data {

/// The protocol of the batch slots, without their bytes. Batches are numbered 0, 1, 2 ... from
/// open(); batch s lives in slot s mod K. Workers take tickets (batch, tile), which go out in the
/// order of the batches; one for batch s waits until its slot is free. The last tile of a batch
/// publishes it. One consumer.
class Ring {
 public:
  struct Ticket {
    std::uint64_t batch = 0;
    int tile = 0;
  };

  Ring(int slots, int tiles);

  [[nodiscard]] int slots() const { return static_cast<int>(slots_.size()); }
  [[nodiscard]] int slot_of(std::uint64_t batch) const {
    return static_cast<int>(batch % slots_.size());
  }

  /// Worker: the next tile once its slot is free; nothing after close().
  std::optional<Ticket> take();
  /// The same, but nothing at once where the slot is not free. For a consumer with nothing to read.
  std::optional<Ticket> try_take();
  /// Worker: the tile is done, or has failed with `error`.
  void finish(const Ticket& ticket, std::exception_ptr error);

  /// Consumer: whether await() would return at once.
  [[nodiscard]] bool published(std::uint64_t batch) const;
  /// Consumer: waits until the batch is published. Returns the error of its first tile that failed,
  /// if any.
  std::exception_ptr await(std::uint64_t batch);
  /// Consumer: its slot may be overwritten.
  void release(std::uint64_t batch);

  /// Wakes every worker and lets none take a further ticket.
  void close();
  /// What is made now, nobody will take.
  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// Begins again at batch 0. No worker may be between take() and finish().
  void open();

 private:
  [[nodiscard]] Ticket ticket(std::uint64_t number) const {
    const auto tiles = static_cast<std::uint64_t>(tiles_);
    return {number / tiles, static_cast<int>(number % tiles)};
  }

  // 32 bits, the width of a futex. Both hold the lower bits of a batch number, so a stale value
  // never matches.
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
