#include "data/ring.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

using namespace trainctl::data;

TEST_CASE("tickets go out tile by tile in the order of the batches") {
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

TEST_CASE("a ticket waits until the consumer has released its slot") {
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

TEST_CASE("a consumer takes a tile only where it need not wait for the slot") {
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

TEST_CASE("closing wakes a worker that waits, and no ticket goes out until the ring opens again") {
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

TEST_CASE("the error of the lowest tile is the batch's error, whatever the order they come in") {
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
