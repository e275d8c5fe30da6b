#include "data/loader/ring.hpp"

#include "support/catch.hpp"

#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace trainctl::data;

TEST_CASE("Ring: tickets are taken tile by tile in the order of the batches") {
  Ring ring(2, 3);
  ring.open();
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    for (int tile = 0; tile < 3; ++tile) {
      const auto ticket = ring.take();
      REQUIRE(ticket);
      CHECK(ticket->batch == batch);
      CHECK(ticket->tile == tile);
      ring.finish(*ticket, nullptr);
    }
  }
  CHECK(ring.await(0) == nullptr);
  CHECK(ring.await(1) == nullptr);
}

TEST_CASE("Ring: take() waits until the consumer releases the slot") {
  Ring ring(1, 1);
  ring.open();
  ring.finish(*ring.take(), nullptr);
  std::atomic<bool> taken{false};
  std::thread worker([&] {
    const auto ticket = ring.take();
    taken = true;
    ring.finish(*ticket, nullptr);
  });
  REQUIRE(ring.await(0) == nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(taken);
  ring.release(0);
  CHECK(ring.await(1) == nullptr);
  worker.join();
  CHECK(taken);
}

TEST_CASE("Ring: try_take() returns nothing instead of waiting for a slot") {
  Ring ring(2, 1);
  CHECK_FALSE(ring.try_take());
  ring.open();
  CHECK_FALSE(ring.published(0));
  const auto first = ring.try_take();
  REQUIRE(first);
  CHECK(first->batch == 0);
  ring.finish(*first, nullptr);
  CHECK(ring.published(0));
  const auto second = ring.take();
  REQUIRE(second);
  CHECK(second->batch == 1);
  CHECK_FALSE(ring.try_take());
  CHECK_FALSE(ring.published(1));
  REQUIRE(ring.await(0) == nullptr);
  ring.release(0);
  const auto third = ring.try_take();
  REQUIRE(third);
  CHECK(third->batch == 2);
  ring.close();
  CHECK_FALSE(ring.try_take());
}

TEST_CASE("Ring: close() wakes a waiting worker, and no ticket is given until open()") {
  Ring ring(1, 1);
  ring.open();
  ring.finish(*ring.take(), nullptr);
  std::thread worker([&] { CHECK_FALSE(ring.take()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ring.close();
  worker.join();
  CHECK_FALSE(ring.take());
  ring.open();
  CHECK(ring.take()->batch == 0);
}

TEST_CASE("Ring: await() returns the error of the lowest tile, in any order of the errors") {
  Ring ring(1, 3);
  ring.open();
  const auto first = *ring.take();
  const auto second = *ring.take();
  const auto third = *ring.take();
  ring.finish(third, std::make_exception_ptr(std::runtime_error("third")));
  ring.finish(second, std::make_exception_ptr(std::runtime_error("second")));
  ring.finish(first, nullptr);
  const auto error = ring.await(0);
  REQUIRE(error);
  CHECK_THROWS_WITH(std::rethrow_exception(error), "second");
  ring.release(0);
  for (int tile = 0; tile < 3; ++tile) ring.finish(*ring.take(), nullptr);
  CHECK(ring.await(1) == nullptr);
}

TEST_CASE("Ring: the consumer reads the values that the workers wrote, in every round") {
  constexpr std::size_t kTiles = 3;
  for (const int workers : {1, 2, 8}) {
    Ring ring(3, kTiles);
    std::vector<std::array<std::uint64_t, kTiles>> slots(3);  // protected only by the ring
    const auto place = [&](std::uint64_t batch) -> std::array<std::uint64_t, kTiles>& {
      return slots[static_cast<std::size_t>(ring.slot_of(batch))];
    };
    const auto make = [&](const Ring::Ticket& ticket) {
      const auto tile = static_cast<std::size_t>(ticket.tile);
      place(ticket.batch)[tile] = ticket.batch * kTiles + tile;
      ring.finish(ticket, nullptr);
    };
    for (int round = 0; round < 3; ++round) {
      ring.open();
      std::vector<std::thread> threads;
      for (int i = 0; i < workers; ++i) {
        threads.emplace_back([&] {
          while (const auto ticket = ring.take()) make(*ticket);
        });
      }
      std::uint64_t wrong = 0;
      for (std::uint64_t batch = 0; batch < 300; ++batch) {
        while (batch % 4 == 0 && !ring.published(batch)) {  // the consumer helps
          const auto ticket = ring.try_take();
          if (!ticket) break;
          make(*ticket);
        }
        if (ring.await(batch)) ++wrong;
        for (std::uint64_t tile = 0; tile < kTiles; ++tile)
          wrong += place(batch)[tile] == batch * kTiles + tile ? 0 : 1;
        ring.release(batch);
      }
      ring.close();
      for (std::thread& thread : threads) thread.join();
      CHECK(wrong == 0);
    }
  }
}
