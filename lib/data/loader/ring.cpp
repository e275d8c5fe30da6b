#include "data/loader/ring.hpp"

#include <utility>

namespace trainctl::data {
namespace {

constexpr int kSpins = 200;

// libstdc++'s notify checks for waiters first. With a weaker store, this check could be reordered
// before the store and miss a waiter, which would then sleep forever.
constexpr std::memory_order kBeforeNotify = std::memory_order_seq_cst;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

/// Spins first, then sleeps, until `done(value)`.
template <class Done>
void wait_for(const std::atomic<std::uint32_t>& value, Done done) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (done(value.load(std::memory_order_acquire))) return;
    relax();
  }
  while (true) {
    const std::uint32_t seen = value.load(std::memory_order_acquire);
    if (done(seen)) return;
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

Ring::Ring(int slots, int tiles) : tiles_(tiles), slots_(static_cast<std::size_t>(slots)) {}

std::optional<Ring::Ticket> Ring::take() {
  const Ticket ticket = this->ticket(next_ticket_.fetch_add(1, std::memory_order_relaxed));
  Slot& slot = slots_[ticket.batch % slots_.size()];
  // close() sets the flag before it changes free_for, so a thread that sees the final value also
  // sees the flag.
  bool closed = false;
  wait_for(slot.free_for, [&](std::uint32_t free_for) {
    closed = closed_.load(std::memory_order_acquire);
    return closed || free_for == low(ticket.batch);
  });
  if (closed) return std::nullopt;
  return ticket;
}

std::optional<Ring::Ticket> Ring::try_take() {
  std::uint64_t number = next_ticket_.load(std::memory_order_relaxed);
  while (!closed_.load(std::memory_order_acquire)) {
    const Ticket ticket = this->ticket(number);
    const Slot& slot = slots_[ticket.batch % slots_.size()];
    if (slot.free_for.load(std::memory_order_acquire) != low(ticket.batch)) break;
    if (next_ticket_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed))
      return ticket;
  }
  return std::nullopt;
}

void Ring::finish(const Ticket& ticket, std::exception_ptr error) {
  Slot& slot = slots_[ticket.batch % slots_.size()];
  if (error) {
    const std::lock_guard lock(slot.error_mutex);
    if (!slot.error || ticket.tile < slot.error_tile) {
      slot.error = std::move(error);
      slot.error_tile = ticket.tile;
    }
    error = nullptr;  // the consumer must hold the last reference
  }
  if (slot.tiles_left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  slot.published.store(low(ticket.batch + 1), kBeforeNotify);
  slot.published.notify_one();
}

bool Ring::published(std::uint64_t batch) const {
  const Slot& slot = slots_[batch % slots_.size()];
  return slot.published.load(std::memory_order_acquire) == low(batch + 1);
}

std::exception_ptr Ring::await(std::uint64_t batch) {
  Slot& slot = slots_[batch % slots_.size()];
  wait_for(slot.published, [&](std::uint32_t published) { return published == low(batch + 1); });
  const std::lock_guard lock(slot.error_mutex);
  return std::exchange(slot.error, nullptr);
}

void Ring::release(std::uint64_t batch) {
  Slot& slot = slots_[batch % slots_.size()];
  slot.tiles_left.store(tiles_, std::memory_order_relaxed);
  slot.free_for.store(low(batch + slots_.size()), kBeforeNotify);
  slot.free_for.notify_all();
}

void Ring::close() {
  closed_.store(true, std::memory_order_release);
  for (Slot& slot : slots_) {
    slot.free_for.fetch_xor(0x80000000, kBeforeNotify);
    slot.free_for.notify_all();
  }
}

void Ring::open() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].free_for.store(low(i), std::memory_order_relaxed);
    slots_[i].published.store(0, std::memory_order_relaxed);
    slots_[i].tiles_left.store(tiles_, std::memory_order_relaxed);
    slots_[i].error = nullptr;
  }
  next_ticket_.store(0, std::memory_order_relaxed);
  closed_.store(false, std::memory_order_release);
}

}  // namespace trainctl::data
